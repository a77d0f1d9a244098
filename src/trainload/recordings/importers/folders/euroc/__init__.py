"""EuRoC MAV (ASL)."""
