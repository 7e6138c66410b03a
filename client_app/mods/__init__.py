"""What happens around every message?"""
