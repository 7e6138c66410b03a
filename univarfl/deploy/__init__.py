"""How are a coordinator and its sites set up, checked and started, and how do they train?"""
