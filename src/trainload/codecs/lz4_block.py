"""LZ4 blocks, fast and HC: u32 size of the data, then one LZ4 block."""

from __future__ import annotations

import struct

import lz4.block

from trainload.codecs.codec import Codec
from trainload.codecs.ids import CODEC_LZ4

_SIZE = struct.Struct("<I")
_MOST_PER_BYTE = 255  # a block cannot say more: one byte of a match length stands for 255 bytes
_LONG_BYTES = 4 << 20
_MAX_INPUT_BYTES = 0x7E000000


def _encode_fast(data: bytes | memoryview, level: int) -> bytes:
    return _encode(data, mode="fast", acceleration=level)


def _encode_high(data: bytes | memoryview, level: int) -> bytes:
    return _encode(data, mode="high_compression", compression=level)


def _encode(data: bytes | memoryview, **options: str | int) -> bytes:
    if len(data) > _MAX_INPUT_BYTES:
        return bytes(data)  # LZ4 takes no more; what did not shrink is stored as it is
    return bytes(lz4.block.compress(data, store_size=True, **options))  # puts the u32 before the block


def _decode(stored: bytes | memoryview, limit: int) -> bytes:
    room = len(stored) - _SIZE.size
    if room < 0:
        raise ValueError("an LZ4 payload must hold its size")
    (size,) = _SIZE.unpack_from(stored)
    if size > limit or size > room * _MOST_PER_BYTE:
        most = min(limit, room * _MOST_PER_BYTE)
        raise ValueError(f"an LZ4 payload states {size:,} bytes where at most {most:,} can be")
    try:
        data: bytes = lz4.block.decompress(stored)  # reads the u32 itself
    except lz4.block.LZ4BlockError as error:
        raise ValueError(f"no whole LZ4 block: {error}") from error
    if len(data) != size:
        raise ValueError(f"an LZ4 payload states {size:,} bytes and unpacks to {len(data):,}")
    return data


# A higher level of the fast mode is faster and larger.
LZ4 = Codec(CODEC_LZ4, "lz4", range(1, 65538), 1, _LONG_BYTES, _encode_fast, _decode)
LZ4HC = Codec(CODEC_LZ4, "lz4hc", range(1, 13), 9, _LONG_BYTES, _encode_high, _decode)
