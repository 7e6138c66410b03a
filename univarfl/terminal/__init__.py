"""How does a command write to a terminal, a pipe or a full disk?"""
