"""How are the steps of local training taken, and how long is the way that they lead?"""
