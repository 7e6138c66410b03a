"""Which settings, checks and computations do several strategies share?"""
