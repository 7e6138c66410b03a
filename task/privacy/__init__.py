"""How is noise drawn that keeps data private, and how much privacy does it cost?"""
