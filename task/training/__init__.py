"""How is one client trained and evaluated?"""
