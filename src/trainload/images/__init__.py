"""Image sets (DTS): packed once, read, checked, decoded and fed to training. Knows no recordings."""
