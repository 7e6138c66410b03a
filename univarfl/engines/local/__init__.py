"""How are clients trained without Ray, in this process or in several?"""
