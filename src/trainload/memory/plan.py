"""The list of every buffer of a loader. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Every buffer of a loader by name, in bytes. Batches that the caller keeps are the caller's."""

    buffers: dict[str, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.buffers.values())

    def __str__(self) -> str:
        width = max(map(len, self.buffers), default=0)
        lines = [f"{name:<{width}}  {size_text(size):>10}" for name, size in self.buffers.items()]
        return "\n".join([*lines, f"{'together':<{width}}  {size_text(self.total_bytes):>10}"])


def size_text(size_bytes: int) -> str:
    """A size for people: MB, or GB from 0.1 GB on."""
    return f"{size_bytes / 1e9:.2f} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:.2f} MB"
