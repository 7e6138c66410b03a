"""Ways to vary training images: one file each."""
