"""How is a data set split among the clients?"""
