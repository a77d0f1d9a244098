"""Where bytes lie: exact reads (source, file) and files that appear whole or not at all (atomic)."""
