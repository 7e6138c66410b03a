"""How are Flower's programs started and ended, and which of its internals do we use?"""
