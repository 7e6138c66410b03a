"""Federated averaging in the style of Flower's quickstarts."""
