"""``univarfl analyse``: what the models of a run show, a measure a file."""
