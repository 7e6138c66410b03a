"""Ways to divide a training set among clients: one file each."""
