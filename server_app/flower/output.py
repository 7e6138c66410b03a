"""Texts that Flower's programs print and that no exit code or file replaces.

``tests/server_app/flower/test_internals.py`` fails when a new version of Flower changes one.
"""

KEY_IN_USE = "Public key already in use"  # from `flwr supernode register`
UNKNOWN_KEY = "code: 2004"  # from a SuperNode whose key is not registered, or still connected
NODE_ACTIVATED = "SuperNode ID:"  # from a SuperNode that has joined
