"""How are Flower's programs started, watched and ended?"""
