"""Which frame of one sensor belongs to which frame of another, and how far apart they are."""
