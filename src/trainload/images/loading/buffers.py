"""The memory of the loader: arenas that blocks are read into, and batch arrays that come back to be used again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trainload.memory.aligned import aligned_array
from trainload.memory.pool import MemoryPool
from trainload.running.feed import Tenant


class Kept(NamedTuple):
    """What a tenant has read ahead for some later `work`: the next claim for this very object takes it over."""

    work: object
    filled: Any


class BufferPair:
    """Two arenas of equal size: one is consumed while the other fills. Loaders may share one pair, one at a time.

    Give the same pair to a train and a val loader (`buffers=`) and both live in the memory of one. When one loader's
    iterator starts, the other's is suspended; it goes on exactly where it was and reads its buffers anew.
    """

    def __init__(self) -> None:
        self.size_bytes = 0  # of one arena
        self._arenas: tuple[NDArray[np.uint8], ...] = ()
        self._tenant: Tenant | None = None
        self._kept: Kept | None = None
        self._free_soon = False

    def require(self, size_bytes: int) -> None:
        """Make each arena hold at least this much. Takes effect at the next `claim`; nothing is allocated here."""
        self.size_bytes = max(self.size_bytes, size_bytes)

    def claim(self, tenant: Tenant, work: object) -> tuple[tuple[NDArray[np.uint8], ...], Kept | None]:
        """Both arenas, for `tenant` alone until somebody else claims or it releases; and what was kept for `work`.

        What was kept for any other work is gone.
        """
        if self._tenant is not None and self._tenant is not tenant:
            self._tenant.suspend()
        self._tenant = tenant
        self._free_soon = False
        kept, self._kept = self._kept, None
        if not self._arenas or len(self._arenas[0]) < self.size_bytes:
            self._arenas, kept = (), None  # the old ones go before the new ones come
            self._arenas = (aligned_array(self.size_bytes), aligned_array(self.size_bytes))
        return self._arenas, kept if kept is not None and kept.work is work else None

    def release(self, tenant: Tenant, kept: Kept | None = None) -> None:
        """`tenant` has stopped using the arenas; they stay for the next claim, with what is in them where it fits."""
        if self._tenant is tenant:
            self._tenant, self._kept = None, kept
            if self._free_soon:
                self.free()

    def free(self) -> None:
        """Give the memory back: at once, or as soon as nobody is using it."""
        self._free_soon = self._tenant is not None
        if self._tenant is None:
            self._arenas, self._kept = (), None

    def __reduce__(self) -> tuple[type[BufferPair], tuple[()]]:
        return BufferPair, ()


class BatchPool:
    """Batch arrays, each used again as soon as nobody holds it or a view of it any more.

    What a caller keeps stays as it is: a fresh array takes its place in the pool. So batches behave like fresh arrays
    without their cost (new memory is cleared page by page, at up to a tenth of the time of decoding into it).
    """

    def __init__(self, shape: Sequence[int], dtype: DTypeLike, kept: int) -> None:
        """shape: of one batch of full size. kept: how many arrays the pool itself holds on to."""
        self._shape = tuple(shape)
        self._dtype = np.dtype(dtype)
        self._size = math.prod(self._shape) * self._dtype.itemsize
        self._memory = MemoryPool(0, small_bytes=1)
        self._memory.allow(kept * self._memory.room_of(self._size))

    def take(self, count: int) -> NDArray[np.generic]:
        """A view of `count` pictures of an idle array, or of a new one."""
        return np.ndarray((count, *self._shape[1:]), self._dtype, self._memory.take(self._size))
