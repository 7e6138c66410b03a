"""How does a trained network turn pixels into probabilities?"""
