"""Bounds of the settings of stages after training, for the coordinator and for the sites."""

MOST_EPOCHS = MOST_BATCH = 1_000_000
