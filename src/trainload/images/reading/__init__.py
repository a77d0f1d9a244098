"""From DTS files and class folders to samples."""
