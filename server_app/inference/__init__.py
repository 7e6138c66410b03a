"""A model put to work: ``univarfl predict`` and ``univarfl export``."""
