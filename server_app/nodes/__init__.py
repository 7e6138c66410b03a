"""Which SuperNodes are registered, and how does the server exchange messages with them?"""
