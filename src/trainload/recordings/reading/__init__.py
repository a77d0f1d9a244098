"""From HFRM files to frames, windows and facts."""
