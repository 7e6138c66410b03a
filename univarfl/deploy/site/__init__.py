"""How does a site run its SuperNode, and answer messages with its own installed code?"""
