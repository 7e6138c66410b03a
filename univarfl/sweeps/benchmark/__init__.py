"""How are methods tuned alike, run on the same cells, and ranked?"""
