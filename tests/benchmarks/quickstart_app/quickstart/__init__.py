"""Federated averaging as Flower's quickstarts write it."""
