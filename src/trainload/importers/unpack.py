"""Chunks of logs unpacked as far as they go: a chunk that is cut off still gives its first messages."""

from __future__ import annotations

import bz2
import io
from typing import Any

import lz4.frame

from trainload.codecs.compression import ZSTD_ERROR, zstd_stream

_STEP = 64 << 10
_ERRORS = (OSError, EOFError, RuntimeError, ValueError, ZSTD_ERROR)


def unpack_partly(compression: str, stored: memoryview, size: int) -> tuple[bytes, str]:
    """At most `size` bytes, and "" or what went wrong before that many came. Memory follows the real output.

    compression: "" or "none", lz4 (frame), zstd, bz2.
    """
    if compression in ("", "none"):
        return bytes(stored[:size]), "" if len(stored) >= size else "the bytes end early"
    out = bytearray()
    try:
        stream = _open(compression, stored)
        while len(out) < size:
            block = stream.read(min(_STEP, size - len(out)))
            if not block:
                return bytes(out), f"{compression} gives {len(out):,} bytes where {size:,} are expected"
            out += block
    except _ERRORS as error:
        return bytes(out), f"{compression}: {error}"
    return bytes(out), ""


def _open(compression: str, stored: memoryview) -> Any:
    if compression == "zstd":
        return zstd_stream(stored)
    if compression == "lz4":
        return lz4.frame.open(io.BytesIO(stored), "rb")
    if compression == "bz2":
        return bz2.BZ2File(io.BytesIO(stored))
    raise ValueError(f"{compression!r} is no compression that logs use")
