"""Which pages of the documentation are made from the code, and how?"""
