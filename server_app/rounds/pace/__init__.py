"""Does a round wait for its clients, or take updates as they arrive?"""
