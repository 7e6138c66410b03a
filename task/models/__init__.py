"""Which networks can be trained?"""
