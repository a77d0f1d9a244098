"""Foreign recordings and data sets into frames and pictures."""
