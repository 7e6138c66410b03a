"""Which experiments has the owner of a site approved?"""
