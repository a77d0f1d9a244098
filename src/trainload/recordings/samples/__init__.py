"""Recordings as training samples: windows, sequences on a fixed time step, aligned frames; a loader of batches."""
