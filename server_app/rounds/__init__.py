"""What happens in a round?"""
