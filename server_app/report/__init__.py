"""``univarfl report``: tables, pictures and a page, made from runs' records alone."""
