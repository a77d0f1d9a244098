"""Memory that is used again: buffers for reads and for batches, each idle once nobody holds it or a view of it."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from trainload.memory.aligned import aligned_buffer
from trainload.storage.reused import HUGE_BYTES, first_idle, huge_buffer

SMALL_BYTES = 256 << 10  # below, fresh memory costs too little to be worth looking for an idle buffer


class ReusedMemory:
    """`take(size)` gives an idle buffer of about that size, or a fresh one. Safe for many threads.

    Fresh memory is cleared page by page, which costs as much as reading into it from the page cache. Large buffers lie
    in huge pages, where reads from the page cache are a quarter faster. limit_bytes: of all buffers, idle or in use;
    past it the size that was least lately asked for goes first, and what is in use then is freed after its users.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._owners: OrderedDict[int, list[NDArray[np.uint8]]] = OrderedDict()  # by size
        self._lock = threading.Lock()

    def take(self, size: int) -> NDArray[np.uint8]:
        """uint8 [size], not initialised, at a multiple of 64; yours as long as you hold it or a view of it."""
        room = _rounded(size)
        if size < SMALL_BYTES or room > self.limit_bytes:
            return np.asarray(aligned_buffer(size))
        with self._lock:
            owners = self._owners.setdefault(room, [])
            self._owners.move_to_end(room)
            owner = first_idle(owners)
            if owner is None:
                owner = _fresh(room)
                owners.append(owner)
                self.size_bytes += room
                self._shrink()
            return owner[:size]

    def allow(self, limit_bytes: int) -> None:
        """Raise the limit to at least so much."""
        self.limit_bytes = max(self.limit_bytes, limit_bytes)

    def _shrink(self) -> None:
        while self.size_bytes > self.limit_bytes:
            room, owners = next(iter(self._owners.items()))
            owners.pop(0)
            self.size_bytes -= room
            if not owners:
                del self._owners[room]


def _fresh(room: int) -> NDArray[np.uint8]:
    """A buffer whose views hold it, and not what lies behind it: `first_idle` counts them."""
    return np.asarray(aligned_buffer(room)) if room < 2 * HUGE_BYTES else huge_buffer(room)


def _rounded(size: int) -> int:
    """`size` and at most half more, so that few sizes occur: quarters of the power of two below, whole huge pages."""
    step = 1 << max(0, size.bit_length() - 3)
    room = -(-size // step) * step
    return room if room < 2 * HUGE_BYTES else -(-room // HUGE_BYTES) * HUGE_BYTES
