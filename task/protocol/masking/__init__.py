"""What do the server and the participants of a masked sum send each other?"""
