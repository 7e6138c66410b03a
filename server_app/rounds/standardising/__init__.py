"""How are the numbers of a table standardised by the rows of all clients, before round 1?"""
