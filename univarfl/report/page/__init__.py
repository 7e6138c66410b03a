"""How do a report's tables and curves become one page that needs no network?"""
