"""How do the clients' updates become the next global model?"""
