"""Which images does each client train and validate on?"""
