"""From pictures to DTS files."""
