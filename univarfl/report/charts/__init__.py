"""Which charts does a report have, as numbers that its page and its pictures show?"""
