"""Which layers do several networks share?"""
