"""What a round's updates must be like beside each other to count."""
