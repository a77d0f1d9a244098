"""Where a loader stands: where its next pass begins, and where the newest one that handed out anything is."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from trainload.running.order import Cut, OrderRule, checked_epoch


@dataclass(frozen=True, slots=True)
class Start:
    """All that the batches of a pass depend on: its epoch, the position it begins at, the order's rule, the cut."""

    epoch: int
    position: int
    rule: OrderRule
    cut: Cut


class Cursor:
    """Position counts samples of the global order that all ranks have consumed. One consumer thread.

    next: (epoch, position) at which the next pass begins. epoch, position: what `state_dict` speaks of: the epoch being
    read, or the next where that one is finished.
    """

    def __init__(self) -> None:
        self.next = self._here = (0, 0)
        self._newest: weakref.ref[Pass] | None = None  # gone when its iterator is

    @property
    def epoch(self) -> int:
        return self._here[0]

    @property
    def position(self) -> int:
        return self._here[1]

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass start at this epoch; where it would anyway (say, in the middle), nothing changes.

        A pass that is at work in this very epoch stays what `state_dict` speaks of.
        """
        epoch = checked_epoch(epoch)
        newest = None if self._newest is None else self._newest()
        if newest is not None and newest.epoch == epoch:
            self.next = (epoch, 0)
        elif epoch != self.next[0]:
            self.go_to(epoch, 0)

    def go_to(self, epoch: int, position: int) -> None:
        """Let the next pass start there, and an older one say nothing more."""
        self.next = self._here = (epoch, position)
        self._newest = None

    def skip_to(self, position: int) -> None:
        """Let the next pass start at this position of its epoch, or behind it where it would anyway."""
        epoch, before = self.next
        if position > before:
            self.go_to(epoch, position)

    def begin(self, start: Start) -> Pass:
        """A pass hands out its first batch (or ends without any): only now its epoch is used up."""
        self._here = (start.epoch, start.position)
        self.next = (start.epoch + 1, 0)
        one = Pass(self, start.epoch)
        self._newest = weakref.ref(one)
        return one

    def reached(self, one: Pass, position: int | None) -> None:
        """A pass tells where it is, None at its end; only the newest one counts."""
        if self._newest is None or one is not self._newest():
            return
        if position is None:
            self._newest = None
            self._here = self.next
        else:
            self._here = (one.epoch, position)

    def __getstate__(self) -> dict[str, object]:
        """A copy goes on where this is, as a loaded state does."""
        return {"next": self._here, "_here": self._here, "_newest": None}


class Pass:
    """One pass over an epoch, as its iterator reports it."""

    def __init__(self, cursor: Cursor, epoch: int) -> None:
        self._cursor = cursor
        self.epoch = epoch

    def delivered(self, position: int) -> None:
        """A batch was handed out; after it the ranks have consumed `position` samples."""
        self._cursor.reached(self, position)

    def finished(self) -> None:
        """The last batch was handed out, and another was asked for."""
        self._cursor.reached(self, None)
