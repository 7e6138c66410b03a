"""How is a classifier solved from sums of all clients' features?"""
