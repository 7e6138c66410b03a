"""Which requests from outside reach the SuperLink, and which are refused?"""
