"""Memory that is used again once nobody holds it, and how that is known.

Fresh memory is cleared by the system page by page, which costs about as much as reading into it from the page cache.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trainload.memory.aligned import aligned_buffer
from trainload.storage.source import Source, check_stretches

HUGE_BYTES = 2 << 20  # a huge page, on x86-64 and on ARM with pages of 4 KB
LEAST_BYTES = 2 * HUGE_BYTES  # of a buffer in huge pages: numpy asks the system for them from here on

AnyScalar = TypeVar("AnyScalar", bound=np.generic)


def first_idle(owners: Sequence[NDArray[AnyScalar]]) -> NDArray[AnyScalar] | None:
    """The first array that only the list holds: nobody else has it or a view of it. None where all are in use."""
    for owner in owners:
        if sys.getrefcount(owner) <= _IDLE_REFERENCES:
            return owner
    return None


def huge_buffer(size: int) -> NDArray[np.uint8]:
    """uint8, at least `size`, not initialised, in whole huge pages where the system has them; an owner for first_idle.

    Its views hold it, and not what lies behind it.
    """
    room = max(LEAST_BYTES, -(-size // HUGE_BYTES) * HUGE_BYTES)
    whole = np.empty(room + HUGE_BYTES, np.uint8)
    start = -whole.ctypes.data % HUGE_BYTES
    return np.asarray(whole[start : start + room].data)


class StepMemory:
    """Memory for the reads of one iteration: a few huge buffers, each idle once the caller let go of what was in it.

    What the caller keeps stays as it is; with all of them in use reads go to fresh memory. For one thread.
    """

    def __init__(self, kept: int) -> None:
        """kept: the number of buffers that this looks after."""
        self._kept = kept
        self._owners: list[NDArray[np.uint8]] = []

    def read(self, source: Source, stretches: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes of `source` in each (start, end), each in memory of its own that starts at a multiple of 64.

        Raises FormatError for a stretch past the end, before any memory is taken.
        """
        check_stretches(source, stretches)
        parts = [self.take(end - start) for start, end in stretches]
        for part, (start, _) in zip(parts, stretches):
            source.readinto_at(start, part)
        return parts

    def take(self, size: int) -> memoryview:
        """`size` writable bytes at a multiple of 64, the caller's as long as he holds them or a view of them."""
        if 2 * size < LEAST_BYTES:  # little must not keep a large buffer from use
            return aligned_buffer(size)
        owner = first_idle(self._owners)
        if owner is None or len(owner) < size:
            self._owners = [each for each in self._owners if each is not owner]
            owner = huge_buffer(size)
            if len(self._owners) < self._kept:
                self._owners.append(owner)
        return owner.data[:size]


def _idle_references() -> int:
    """What getrefcount says of an array that only a list and a loop variable hold (3, or 2 from Python 3.14 on)."""
    owners = [np.empty(1)]
    counts = [sys.getrefcount(owner) for owner in owners]
    for owner in owners:
        counts.append(sys.getrefcount(owner))
    return counts[-1]


_IDLE_REFERENCES = _idle_references()
