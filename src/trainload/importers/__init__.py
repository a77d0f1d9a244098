"""Foreign recordings as streams and frames: one file per format (`items()` yields both), run.py writes them as HFRM."""
