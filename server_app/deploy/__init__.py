"""Real machines: keys, the coordinator's SuperLink, a site's SuperNode, checks before joining."""
