"""Whose key signed a request, and does one machine alone use that key?"""
