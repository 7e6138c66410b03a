"""Does a run count real seconds, or those of simulated devices?"""
