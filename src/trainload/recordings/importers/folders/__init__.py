"""Data sets that are folders."""
