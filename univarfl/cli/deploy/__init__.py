"""Which commands are there for training across machines?"""
