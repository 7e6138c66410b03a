"""How fast is each device of a simulated population, and when is it available?"""
