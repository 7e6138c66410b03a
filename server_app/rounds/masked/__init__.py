"""What does the server ask in a masked round, stage by stage?"""
