"""What a grid does, observed from both ends."""
