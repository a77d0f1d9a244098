"""Is every bit of a set what it was when it was written?"""
