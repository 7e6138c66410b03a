"""How do the results differ between classes, and between clients?"""
