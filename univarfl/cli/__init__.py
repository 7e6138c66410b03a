"""Which commands are there?"""
