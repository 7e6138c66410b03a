"""How does a site answer messages with its own code, each in a process of its own?"""
