"""Bytes to values and back, pure: no I/O, no arrays of samples, nothing trusted before it was checked."""
