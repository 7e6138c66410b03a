"""What is learned: data, models, local methods and the local training loop, in plain PyTorch."""
