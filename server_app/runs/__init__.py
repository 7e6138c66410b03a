"""What is stored of a run, and how is it read?"""
