"""What do the records of runs show, as tables, charts and a page?"""
