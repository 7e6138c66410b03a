"""Can a site reach its coordinator, and is it let in?"""
