"""Recordings (HFRM): written, read, checked, recovered, aligned, fed to training. Knows no image sets."""
