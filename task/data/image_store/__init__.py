"""Where are decoded images kept on disk, and when are they decoded again?"""
