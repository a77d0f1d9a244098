"""Which sample when, and how it gets there: order, buffers, workers, the loader."""
