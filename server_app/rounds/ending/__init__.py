"""What happens after the last round?"""
