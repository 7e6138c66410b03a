"""Ways to run the ServerApp with its ClientApps from one command."""
