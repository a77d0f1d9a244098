"""A file under a recording that fails where a test wants it to: the n-th write, sync or rename, short or full."""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainload.storage.atomic import AtomicFile


class Faults:
    """Counts operations; `fail[(operation, n)]` is the errno of the n-th one. capacity_bytes: the disk's size."""

    def __init__(self, fail: dict[tuple[str, int], int] | None = None, *, capacity_bytes: int | None = None) -> None:
        self.fail = fail or {}
        self.capacity_bytes = capacity_bytes
        self.counts: Counter[str] = Counter()

    def hit(self, operation: str) -> None:
        """Count one operation, and fail where it is this one's turn."""
        self.counts[operation] += 1
        code = self.fail.get((operation, self.counts[operation]))
        if code is not None:
            raise OSError(code, os.strerror(code))

    def opener(self) -> Callable[[Path], AtomicFile]:
        """What a recording takes as open_file."""
        return lambda path: FaultyFile(path, self)


class FaultyFile(AtomicFile):
    """An AtomicFile whose operations ask Faults first. A full disk takes what fits, as real ones do."""

    def __init__(self, path: Path, faults: Faults) -> None:
        super().__init__(path, keep=True)
        self._faults = faults

    def write_at(self, offset: int, data: Any) -> None:
        self._faults.hit("write")
        self._fit(offset, memoryview(data).cast("B"))
        super().write_at(offset, data)

    def write_vector_at(self, offset: int, buffers: Sequence[bytes | memoryview]) -> None:
        self._fit(offset, memoryview(b"".join(buffers)))
        try:
            self._faults.hit("write")
        except OSError:
            super().write_at(offset, b"".join(buffers)[:100])  # half of it went through
            raise
        super().write_vector_at(offset, buffers)

    def sync(self) -> None:
        self._faults.hit("sync")
        super().sync()

    def commit(self) -> None:
        self.sync()
        self._faults.hit("rename")
        super().commit()

    def _fit(self, offset: int, data: memoryview) -> None:
        capacity = self._faults.capacity_bytes
        if capacity is not None and offset + len(data) > capacity:
            super().write_at(offset, data[: max(0, capacity - offset)])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class VolatileFile(AtomicFile):
    """A file on a disk with a cache: what was written since the last sync may or may not outlive a power cut."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, keep=True)
        self.synced = b""

    def sync(self) -> None:
        super().sync()
        self.synced = self.tmp_path.read_bytes()

    def after_power_cut(self, rng: random.Random) -> bytes:
        """What the disk may hold: the synced bytes, and of all later ones any pages of 4 KiB, up to any length."""
        written = self.tmp_path.read_bytes()
        size = rng.randint(len(self.synced), len(written))
        pages = []
        for at in range(0, size, 4096):
            old = self.synced[at : at + 4096].ljust(min(4096, size - at), b"\0")
            pages.append(rng.choice((old, written[at : at + 4096][: len(old)])))
        return b"".join(pages)
