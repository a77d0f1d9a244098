"""Rows of files: CSV, JSON arrays, .npy arrays."""
