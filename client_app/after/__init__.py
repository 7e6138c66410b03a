"""What does a client do after the last round?"""
