"""Our files into foreign formats."""
