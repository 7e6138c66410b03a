"""A package that adds a method, a strategy and a data source to univarfl."""
