"""Which settings of different groups do not fit together?"""
