"""How reads of a local file get on with the system's read-ahead: what is there already, what is announced.

What Linux reads ahead of reads that follow each other comes in large folios: at half the work of what it fetches for
one long read or for a hint, which is single pages, and it is read faster ever after. So on a device that reads ahead
FAR_BYTES or more, long reads go by STEP_BYTES and are not announced. On others they need what queue they can get.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

FAR_BYTES = 1 << 20
STEP_BYTES = 256 << 10
PROBE_BYTES = 1 << 20  # of what is announced: one look whether it is there already, which costs a third of reading it
ADVICE_BYTES = 256 << 10  # Linux cuts one hint at the device's read-ahead or its largest request: 128 KB and more


def read_at_once(fd: int, view: memoryview, offset: int) -> int:
    """Read what the page cache has from `offset` on, without waiting: how many bytes; 0 where that cannot be told."""
    if not hasattr(os, "RWF_NOWAIT"):  # macOS
        return 0
    try:
        return os.preadv(fd, (view,), offset, os.RWF_NOWAIT)
    except OSError:
        return 0


def announce(fd: int, offset: int, size: int) -> None:
    """Have the system read `size` bytes from `offset` in the background; nothing for what it holds already."""
    if not hasattr(os, "posix_fadvise"):  # macOS
        return
    end = offset + size
    for start in range(offset, end, PROBE_BYTES):
        if not read_at_once(fd, memoryview(bytearray(1)), start):
            for at in range(start, min(start + PROBE_BYTES, end), ADVICE_BYTES):
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
