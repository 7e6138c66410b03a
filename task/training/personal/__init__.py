"""Which part of the model stays with its client?"""
