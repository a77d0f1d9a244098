"""Zstandard: one frame with its content size. The payload's own CRC-32 covers it, so the frame carries no checksum."""

from __future__ import annotations

import sys
import threading
from typing import Any

from trainload.codecs.codec import Codec
from trainload.codecs.compression import zstd_decompress
from trainload.codecs.ids import CODEC_ZSTD

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import zstandard

_AT_ONCE_BYTES = 64 << 20  # up to here a stated size may be allocated before it is proven
_contexts = threading.local()  # a compressor serves one thread at a time


def _encode(data: bytes | memoryview, level: int) -> bytes:
    if sys.version_info >= (3, 14):
        return zstd.compress(data, level)
    return bytes(_encoder(level).compress(data))


def _decode(stored: bytes | memoryview, limit: int) -> bytes:
    if sys.version_info >= (3, 14):
        return zstd_decompress(stored, limit)
    try:
        stated = zstandard.frame_content_size(stored)
        if not 0 <= stated <= limit or stated > _AT_ONCE_BYTES:
            return zstd_decompress(stored, limit)
        data: bytes = _decoder().decompress(stored)
    except zstandard.ZstdError as error:
        raise ValueError(f"no whole Zstandard frame: {error}") from error
    if len(data) != stated:
        raise ValueError(f"a Zstandard frame states {stated:,} bytes and unpacks to {len(data):,}")
    return data


def _decoder() -> Any:
    try:
        return _contexts.decoder
    except AttributeError:
        _contexts.decoder = zstandard.ZstdDecompressor()
        return _contexts.decoder


def _encoder(level: int) -> Any:
    encoders = _contexts.__dict__.setdefault("encoders", {})
    if level not in encoders:
        encoders[level] = zstandard.ZstdCompressor(level=level)
    return encoders[level]


ZSTD = Codec(CODEC_ZSTD, "zstd", range(1, 23), 3, 64 << 10, _encode, _decode)
