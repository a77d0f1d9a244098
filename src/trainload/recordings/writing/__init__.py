"""From sensor frames to HFRM files."""
