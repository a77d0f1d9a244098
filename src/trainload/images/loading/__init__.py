"""Samples into known memory, decoded by threads, handed over in order."""
