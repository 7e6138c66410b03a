"""How does one command run the ServerApp and its ClientApps: under Flower, or in one process?"""
