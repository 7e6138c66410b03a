"""How does a page show runs while they go on?"""
