"""What is run?"""
