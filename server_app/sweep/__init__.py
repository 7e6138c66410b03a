"""``univarfl sweep``: many runs, whichever of them are not done yet."""
