"""Decoded frames that were used lately, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENTRY_BYTES = 512  # what one entry costs beside its numbers: array, key and their places, rounded up

FrameKey = tuple[int, str, int, int]  # recording, stream, stream index, time


class FrameCache:
    """Least recently used goes first. Safe for many threads; a copy in another process starts empty.

    limit_bytes: of the entries together, each its array and ENTRY_BYTES; 0 keeps nothing. size_bytes: held now.
    hits, misses: since it was made.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.hits = 0
        self.misses = 0
        self.size_bytes = 0
        self._arrays: OrderedDict[FrameKey, NDArray[Any]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def hit_rate(self) -> float:
        """The share of requests that were answered, 0 to 1."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    def get(self, key: FrameKey) -> NDArray[Any] | None:
        """The array of a frame, or None. Callers must not write to it."""
        with self._lock:
            found = self._arrays.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
                self._arrays.move_to_end(key)
            return found

    def put(self, key: FrameKey, array: NDArray[Any]) -> None:
        """Keep an array, unless it alone is larger than the limit; the oldest make room. A view of more is copied."""
        if _cost(array) > self.limit_bytes:
            return
        if _memory_behind(array) > _cost(array):
            array = array.copy()
            array.flags.writeable = False
        with self._lock:
            old = self._arrays.pop(key, None)
            self.size_bytes += _cost(array) - (0 if old is None else _cost(old))
            self._arrays[key] = array
            while self.size_bytes > self.limit_bytes:
                self.size_bytes -= _cost(self._arrays.popitem(last=False)[1])

    def __reduce__(self) -> tuple[type[FrameCache], tuple[int]]:
        return FrameCache, (self.limit_bytes,)


def _cost(array: NDArray[Any]) -> int:
    return array.nbytes + ENTRY_BYTES


def _memory_behind(array: NDArray[Any]) -> int:
    """Bytes that stay allocated while `array` lives: of a view of a read, the whole read."""
    owner: Any = array
    while (behind := owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)) is not None:
        owner = behind
    return int(owner.nbytes) if isinstance(owner, np.ndarray) else array.nbytes
