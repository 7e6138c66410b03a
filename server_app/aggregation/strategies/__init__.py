"""Which rule turns a round's updates into the next global model?"""
