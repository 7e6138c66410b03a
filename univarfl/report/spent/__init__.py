"""How much simulated time, and how many bytes, did the runs need for their accuracy?"""
