"""How are settings composed from `conf/` and overrides, and checked?"""
