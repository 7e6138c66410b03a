"""How is a site's worker kept running beside its SuperNode?"""
