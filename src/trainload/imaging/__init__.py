"""From JPEG bytes to training pixels: operations, their random numbers, the calls into the core."""
