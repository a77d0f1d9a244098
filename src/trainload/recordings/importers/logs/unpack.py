"""Chunks of logs unpacked as far as they go: a chunk that is cut off still gives its first messages."""

from __future__ import annotations

import bz2
import io
from typing import Any

import lz4.frame

from trainload.codecs.compression import ZSTD_ERROR, zstd_stream

_STEP = 64 << 10
_ERRORS = (OSError, EOFError, RuntimeError, ValueError, ZSTD_ERROR)


def unpack_partly(compression: str, stored: memoryview, size: int) -> tuple[memoryview, str]:
    """At most `size` bytes, and "" or what is wrong with the stored ones. Memory follows the real output.

    compression: "" or "none", lz4 (frame), zstd, bz2. A checksum that the compression has at its end is looked at too.
    """
    if compression in ("", "none"):
        return stored[:size], "" if len(stored) >= size else "the bytes end early"
    out = bytearray()
    try:
        stream = _open(compression, stored)
        while len(out) < size:
            block = stream.read(min(_STEP, size - len(out)))
            if not block:
                return memoryview(out), f"{compression} gives {len(out):,} bytes where {size:,} are expected"
            out += block
        if stream.read(1):
            return memoryview(out), f"{compression} gives more than the {size:,} bytes that are expected"
    except _ERRORS as error:
        return memoryview(out), f"{compression}: {error}"
    return memoryview(out), ""


def _open(compression: str, stored: memoryview) -> Any:
    if compression == "zstd":
        return zstd_stream(stored)
    if compression == "lz4":
        return lz4.frame.open(io.BytesIO(stored), "rb")
    if compression == "bz2":
        return bz2.BZ2File(io.BytesIO(stored))
    raise ValueError(f"{compression!r} is no compression that logs use")
