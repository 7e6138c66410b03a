"""How are the tables of a run written while it goes on?"""
