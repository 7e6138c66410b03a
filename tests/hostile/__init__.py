"""Replies and requests as a hostile site or coordinator would send them."""
