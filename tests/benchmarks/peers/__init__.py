"""Other simulators of federated learning at the work of the bare loop."""
