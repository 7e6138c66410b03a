"""How do ``univarfl predict`` and ``univarfl export`` use the model of a run?"""
