"""Unfinished and damaged recordings: every whole window in a new file. Stands above reader and writer."""
