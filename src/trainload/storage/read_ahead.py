"""Telling the system which bytes of a local file are read soon, where that helps."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

LONG_BYTES = 1 << 20  # what is shorter comes too late to be caught by the system's own read-ahead
ADVICE_BYTES = 256 << 10  # Linux cuts one hint at the device's read-ahead or its largest request: 128 KB and more


def announce(fd: int, offset: int, size: int) -> None:
    """Have the system read `size` bytes from `offset` in the background; nothing for what it holds already.

    Nothing either for long stretches on a device that itself reads LONG_BYTES ahead of sequential reads: those pages
    come in large folios, at half the work, and are read faster ever after, where hints bring single pages.
    """
    if not hasattr(os, "posix_fadvise") or (size >= LONG_BYTES and read_ahead_bytes(os.fstat(fd).st_dev) >= LONG_BYTES):
        return  # macOS has no hints
    end = offset + size
    for start in range(offset, end, LONG_BYTES):
        if not _is_cached(fd, start):
            for at in range(start, min(start + LONG_BYTES, end), ADVICE_BYTES):
                os.posix_fadvise(fd, at, min(ADVICE_BYTES, end - at), os.POSIX_FADV_WILLNEED)


@lru_cache(maxsize=64)
def read_ahead_bytes(device: int) -> int:
    """How far ahead of sequential reads Linux reads from a device (`st_dev`); 0 where it does not say."""
    name = f"{os.major(device)}:{os.minor(device)}"
    for folder in (f"/sys/class/bdi/{name}", f"/sys/dev/block/{name}/../bdi"):  # the latter: of a partition's disk
        try:
            return int(Path(folder, "read_ahead_kb").read_text()) << 10
        except (OSError, ValueError):
            continue
    return 0


def _is_cached(fd: int, offset: int) -> bool:
    """True where the page cache has the byte at `offset`; False also where the file system cannot say."""
    try:
        return os.preadv(fd, (bytearray(1),), offset, os.RWF_NOWAIT) == 1
    except OSError:
        return False
