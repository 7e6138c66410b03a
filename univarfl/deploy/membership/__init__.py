"""Which keys belong to which sites, and how does a site change or lose its key?"""
