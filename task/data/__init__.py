"""Images, how they are divided among clients, and how batches of them reach the device."""
