"""How are the inputs of a classifier distributed?"""
