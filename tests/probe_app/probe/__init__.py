"""A Flower app that observes a grid from the server and from the clients."""
