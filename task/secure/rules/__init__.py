"""What does a participant accept, and what does it never sign twice?"""
