"""May a run go on, and are all of its files as they were written?"""
