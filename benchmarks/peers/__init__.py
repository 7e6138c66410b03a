"""Other simulators of federated learning, doing the work of the bare loop."""
