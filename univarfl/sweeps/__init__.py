"""Which runs does ``univarfl sweep`` start, and how do they run in parallel?"""
