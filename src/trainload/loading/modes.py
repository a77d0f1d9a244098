"""How much of a set is kept in memory, and the list of every buffer that this takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from trainload.errors import UsageError
from trainload.loading.memory import MemoryLimit

Mode = Literal["fully", "partial"]


class ModeChoice(NamedTuple):
    """A mode and the reason for it, as a sentence."""

    mode: Mode
    reason: str


def choose_mode(asked: str, needed_bytes: int, limit: MemoryLimit, processes: int = 1) -> ModeChoice:
    """`asked` is "fully", "partial" or "auto": FULLY where the set fits in half of this process's share of the memory.

    limit: what the process may use; shared by `processes` processes of one job on this machine. Raises UsageError.
    """
    if asked in ("fully", "partial"):
        mode: Mode = "fully" if asked == "fully" else "partial"
        return ModeChoice(mode, "asked for")
    if asked != "auto":
        raise UsageError(f"mode is {asked!r}; give 'auto', 'fully' or 'partial'")
    room = limit.size_bytes // 2 // processes
    shared = f" / {processes} processes" if processes > 1 else ""
    fits = needed_bytes <= room
    return ModeChoice(
        "fully" if fits else "partial",
        f"the set needs {_gigabytes(needed_bytes)}, which is {'within' if fits else 'more than'} half of the "
        f"{_gigabytes(limit.size_bytes)} that this process may use ({limit.reason}{shared})",
    )


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Every buffer of a loader by name, in bytes. Batches that the caller keeps are the caller's."""

    buffers: dict[str, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.buffers.values())

    def __str__(self) -> str:
        width = max(map(len, self.buffers), default=0)
        lines = [f"{name:<{width}}  {_gigabytes(size):>10}" for name, size in self.buffers.items()]
        return "\n".join([*lines, f"{'together':<{width}}  {_gigabytes(self.total_bytes):>10}"])


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"
