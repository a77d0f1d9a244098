"""Recordings into other recordings and foreign formats."""
