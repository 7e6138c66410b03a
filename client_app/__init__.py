"""One worker's side of the federation: the ClientApp that trains and scores cohorts of clients."""
