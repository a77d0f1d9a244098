"""The command line: parse, call, render; one file per verb."""
