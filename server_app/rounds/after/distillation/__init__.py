"""How are the clients' models distilled into the global one?"""
