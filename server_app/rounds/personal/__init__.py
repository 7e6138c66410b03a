"""How does the run directory get the parts of the model that clients keep?"""
