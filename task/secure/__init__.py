"""How do participants mask their updates, so that a coordinator learns only the sum?"""
