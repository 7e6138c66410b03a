"""How does the resident worker speak to the SuperNode beside it?"""
