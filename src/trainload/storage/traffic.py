"""What reads over a network cost: counted by each handle for itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Counts of one handle. network_bytes, cache_bytes: read from there. requests: GETs and HEADs, failed ones too.

    retries: of them. slowest_seconds: of the slowest read, all its tries and waits included.
    """

    network_bytes: int = 0
    cache_bytes: int = 0
    requests: int = 0
    retries: int = 0
    slowest_seconds: float = 0.0

    def add(self, other: Traffic) -> None:
        """Take the counts of another in."""
        self.network_bytes += other.network_bytes
        self.cache_bytes += other.cache_bytes
        self.requests += other.requests
        self.retries += other.retries
        self.slowest_seconds = max(self.slowest_seconds, other.slowest_seconds)
