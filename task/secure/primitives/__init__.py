"""Which cryptographic operations does secure aggregation use?"""
