"""How is a network trained and scored that says yes or no to each of several labels?"""
