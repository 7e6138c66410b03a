"""What a trained model shows: curvature, spread of probabilities and features, drift, cost."""
