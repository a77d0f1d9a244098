"""Where a loader stands: the epoch and position that its next iterator starts at, and those of its newest one."""

from __future__ import annotations

from trainload.errors import UsageError

EPOCHS = 1 << 32  # epochs count from 0; docs/order.md gives them 32 bits


class Progress:
    """Position counts samples of the global order that all ranks have consumed. One consumer thread.

    epoch, position: what `state_dict` speaks of: the epoch being read, or the next where that one is finished.
    """

    def __init__(self) -> None:
        self._next = self._here = (0, 0)
        self._newest: Pass | None = None

    @property
    def epoch(self) -> int:
        return self._here[0]

    @property
    def position(self) -> int:
        return self._here[1]

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass start at this epoch; where it would anyway (say, in the middle), nothing changes."""
        if not 0 <= epoch < EPOCHS:
            raise UsageError(f"epoch {epoch} is not in 0 .. 2^32 - 1")
        if epoch != self._next[0]:
            self.go_to(int(epoch), 0)

    def go_to(self, epoch: int, position: int) -> None:
        """Let the next pass start there, and an older one say nothing more."""
        self._next = self._here = (epoch, position)
        self._newest = None

    def begin(self) -> Pass:
        """The next pass: the next epoch, or the rest of one after `go_to`."""
        epoch, position = self._here = self._next
        self._next = (epoch + 1, 0)
        self._newest = Pass(self, epoch, position)
        return self._newest

    def reached(self, one: Pass, epoch: int, position: int) -> None:
        """A pass tells where it is; only the newest one counts."""
        if one is self._newest:
            self._here = (epoch, position)

    def __getstate__(self) -> dict[str, object]:
        return {"_next": self._next, "_here": self._here, "_newest": None}


class Pass:
    """One pass over an epoch from `position` on, as its iterator reports it."""

    def __init__(self, progress: Progress, epoch: int, position: int) -> None:
        self._progress = progress
        self.epoch = epoch
        self.position = position

    def delivered(self, position: int) -> None:
        """A batch was handed out; after it the ranks have consumed `position` samples."""
        self._progress.reached(self, self.epoch, position)

    def finished(self) -> None:
        """The last batch was handed out, and another was asked for."""
        self._progress.reached(self, self.epoch + 1, 0)
