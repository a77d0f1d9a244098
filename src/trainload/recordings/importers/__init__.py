"""Foreign recordings as streams and frames: one room per format (`items()` yields both); run.py writes them as HFRM."""
