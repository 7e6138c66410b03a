"""A method with the name of one of univarfl's, which has precedence."""

raise ImportError("this is not imported")
