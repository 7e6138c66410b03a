"""How is a classifier calibrated with statistics of the clients' features?"""
