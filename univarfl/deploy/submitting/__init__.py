"""How is a run submitted to the coordinator's SuperLink, followed, and restored when one dies?"""
