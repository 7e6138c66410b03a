"""What do the models of a run show, measure by measure?"""
