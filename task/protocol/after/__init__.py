"""What do the requests after the last round hold, and the replies?"""
