"""How are the steps of local training taken, and with which learning rate?"""
