"""What do the server and the clients send each other?"""
