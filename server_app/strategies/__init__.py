"""Aggregation strategies: one file each, around a strategy of `flwr.serverapp.strategy`."""
