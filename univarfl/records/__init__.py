"""How are the runs of a directory listed, named and opened?"""
