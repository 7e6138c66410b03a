"""Data sets: one file each, giving an `ImageDataset`."""
