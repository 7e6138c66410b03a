"""What is done with the global model after the last round?"""
