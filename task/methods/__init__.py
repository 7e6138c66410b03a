"""What does each local method compute?"""
