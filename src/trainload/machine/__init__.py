"""What this process may use of the machine."""
