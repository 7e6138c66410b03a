"""Which properties of trained models and of methods can be measured?"""
