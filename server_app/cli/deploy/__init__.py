"""What can a person type about training across machines?"""
