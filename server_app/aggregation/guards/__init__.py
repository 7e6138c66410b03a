"""Which updates are rejected or clipped, compared with the others of their round?"""
