"""Which words can a person type, and what is meant by others?"""
