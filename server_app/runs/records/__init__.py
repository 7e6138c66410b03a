"""How are the files of a record written, read and checked?"""
