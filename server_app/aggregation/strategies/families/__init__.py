"""Which settings and checks do several strategies share?"""
