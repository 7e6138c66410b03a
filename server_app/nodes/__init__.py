"""Which SuperNodes are there, and how does the server exchange messages with them?"""
