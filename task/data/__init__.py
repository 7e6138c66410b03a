"""Which images does each client hold, and how do batches of them reach the device?"""
