"""How far a pack is, told to whoever asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PROGRESS_PICTURES = 64  # between two calls


@dataclass(frozen=True, slots=True)
class PackProgress:
    """How far a set is: pictures done of all; `resumed` of them by an earlier run. unit: what is counted."""

    path: str
    done: int
    total: int
    resumed: int
    unit: str = "pictures"


class Meter:
    """Counts the pictures of one set, or one volume of it, and tells of every PROGRESS_PICTURES."""

    def __init__(self, path: str, total: int, tell: Callable[[PackProgress], None] | None) -> None:
        self._path = path
        self._total = total
        self._tell = tell
        self._done = 0
        self._resumed = 0

    def resume(self, pictures: int) -> None:
        """Count what an earlier run did."""
        self._done += pictures
        self._resumed += pictures

    def tick(self) -> None:
        """Count one picture. A picture that is looked at twice counts twice, up to all."""
        self._done += 1
        if self._done % PROGRESS_PICTURES == 0:
            self._show(min(self._done, self._total))

    def add(self, pictures: int) -> None:
        """Count as many, and tell."""
        self._done += pictures
        self._show(min(self._done, self._total))

    def finish(self) -> None:
        self._show(self._total)

    def _show(self, done: int) -> None:
        if self._tell:
            self._tell(PackProgress(self._path, done, self._total, self._resumed))
