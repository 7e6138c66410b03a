"""Can a site take part, and is its machine in order?"""
