"""Zstandard: one frame with its content size. The payload's own CRC-32 covers it, so the frame carries no checksum."""

from __future__ import annotations

import sys
import threading
from typing import Any

from trainload.codecs.codec import Codec
from trainload.codecs.compression import zstd_decompress
from trainload.formats.hyperframe import CODEC_ZSTD

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

_AT_ONCE_BYTES = 64 << 20  # up to here a stated size may be allocated before it is proven
_contexts = threading.local()  # a compressor serves one thread at a time


def _encode(data: bytes, level: int) -> bytes:
    if sys.version_info >= (3, 14):
        return zstd.compress(data, level)
    return bytes(_context(f"level {level}", lambda: zstandard.ZstdCompressor(level=level)).compress(data))


def _decode(stored: bytes | memoryview, limit: int) -> bytes:
    if sys.version_info >= (3, 14):
        return zstd_decompress(stored, limit)
    try:
        stated = zstandard.frame_content_size(stored)
        if not 0 <= stated <= min(limit, _AT_ONCE_BYTES):
            return zstd_decompress(stored, limit)
        data = bytes(_context("decoder", zstandard.ZstdDecompressor).decompress(stored, max_output_size=stated))
    except zstandard.ZstdError as error:
        raise ValueError(f"no whole Zstandard frame: {error}") from error
    if len(data) != stated:
        raise ValueError(f"a Zstandard frame states {stated:,} bytes and unpacks to {len(data):,}")
    return data


def _context(key: str, make: Any) -> Any:
    found = getattr(_contexts, key, None)
    if found is None:
        found = make()
        setattr(_contexts, key, found)
    return found


ZSTD = Codec(CODEC_ZSTD, "zstd", range(1, 23), 3, _encode, _decode)
