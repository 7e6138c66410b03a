"""What do the records of runs show, as tables, pictures and a page?"""
