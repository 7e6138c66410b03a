"""Which of Flower's internals does a run use, and what ends it with its command?"""
