"""Work on many machines: plain tasks, run by Ray. Knows nothing of what the tasks do."""
