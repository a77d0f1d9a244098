"""Is every bit of a recording what it was when it was written?"""
