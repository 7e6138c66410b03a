"""What does one worker do when the server asks it to train or score clients?"""
