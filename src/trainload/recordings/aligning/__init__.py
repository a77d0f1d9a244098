"""Which frames of several streams belong together in time, and how well they do: match, clock, align, report."""
