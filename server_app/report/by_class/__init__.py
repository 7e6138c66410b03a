"""What do the records of runs show of single classes?"""
