"""How does an update or a score become a vector of integers that can be masked?"""
