"""Which parameters are trained?"""
