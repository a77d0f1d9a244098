"""Aligned buffers, how much memory there may be, and the list of all that is used."""
