"""The federation, and the person who runs it: ServerApp, record, engines and commands."""
