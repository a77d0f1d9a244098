"""How much of a set is kept in memory. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from trainload.errors import UsageError
from trainload.memory.limits import MemoryLimit
from trainload.memory.plan import size_text

Mode = Literal["fully", "partial"]
AskedMode = Literal["auto", "fully", "partial"]


class ModeChoice(NamedTuple):
    """A mode and the reason for it, as a sentence."""

    mode: Mode
    reason: str


def choose_mode(asked: AskedMode, needed_bytes: int, limit: MemoryLimit, processes: int = 1) -> ModeChoice:
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
        f"the set needs {size_text(needed_bytes)}, which is {'within' if fits else 'more than'} half of the "
        f"{size_text(limit.size_bytes)} that this process may use ({limit.reason}{shared})",
    )


def check_kept(kept_bytes: int, beside_bytes: int, limit: MemoryLimit, processes: int = 1) -> None:
    """Raise UsageError where pixels that are to be kept, beside an arena, need more than a set in memory may."""
    if kept_bytes + beside_bytes > limit.size_bytes // 2 // processes:
        beside = f" beside an arena of {size_text(beside_bytes)}" if beside_bytes else ""
        shared = f" / {processes} processes" if processes > 1 else ""
        raise UsageError(
            f"keep='pixels' needs {size_text(kept_bytes)}{beside}, which is more than half of the "
            f"{size_text(limit.size_bytes)} that this process may use ({limit.reason}{shared}): leave keep out, or "
            "choose a smaller output"
        )
