"""Which data sets are there, and how is each of them read, by one source per file?"""
