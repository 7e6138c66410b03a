"""How is the table of the clients of every round kept short, and read?"""
