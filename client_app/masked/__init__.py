"""How does a worker answer the stages of a masked round?"""
