"""What a run asks of whatever brings its samples into memory. The engine knows no files and no arenas."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from trainload.running.slices import Slice


class Signals:
    """What the threads of a run share: one lock, and whether all is over."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # reentrant: the garbage collector may stop a run anywhere
        self.stopped = False


class Tenant(Protocol):
    """Whoever fills buffers that others may claim."""

    def suspend(self) -> None:
        """Stop using the buffers before this returns; go on later from the same place, if asked."""


class Feed(Protocol):
    """Brings samples into memory while a run decodes them. Its loops are threads of the run, its waits use the lock."""

    @property
    def loops(self) -> int:
        """Threads that it wants."""

    def open(self, run: Tenant, signals: Signals) -> None:
        """Claim the memory for `run`, before any thread starts."""

    def loop(self, n: int) -> None:
        """The work of its n-th thread, until it is done or the run has stopped."""

    def wait_for(self, part: Slice) -> Any:
        """What holds the slice's samples, once all have arrived; None where all is over. Raises what a read raised."""

    def consumed(self, part: Slice) -> None:
        """A slice is decoded, and its samples may go. Called under the lock, also while the run stops."""

    def batch_done(self) -> None:
        """A batch is finished. Called under the lock."""

    def wake(self) -> None:
        """The run has stopped: end every wait. Called under the lock."""

    def close(self, run: Tenant) -> None:
        """The threads of `run` have ended: give the memory back."""
