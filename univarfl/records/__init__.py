"""How are the records of runs read, listed and named?"""
