"""What do clients compute after the last round?"""
