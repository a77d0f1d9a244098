"""Where bytes lie: exact reads (source, file), files and folders that appear whole or not at all (atomic, folders)."""
