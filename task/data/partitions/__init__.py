"""How are training images partitioned among clients?"""
