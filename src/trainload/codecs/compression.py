"""Zstandard with bounded output: the standard library's from Python 3.14, else the zstandard package."""

from __future__ import annotations

import io
import sys
from typing import Any, BinaryIO

if sys.version_info >= (3, 14):
    from compression import zstd

    ZSTD_ERROR: type[Exception] = zstd.ZstdError
else:
    import zstandard

    ZSTD_ERROR: type[Exception] = zstandard.ZstdError

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK_BYTES = 1 << 20
_MAX_WINDOW_LOG = 27  # 128 MB: what the zstd command itself accepts without a switch


def zstd_compress(data: bytes | memoryview, level: int = 3) -> bytes:
    """One Zstandard frame of `data`, with its content checksum."""
    if sys.version_info >= (3, 14):
        options = {zstd.CompressionParameter.compression_level: level, zstd.CompressionParameter.checksum_flag: 1}
        return zstd.compress(data, options=options)
    return bytes(zstandard.ZstdCompressor(level=level, write_checksum=True).compress(data))


def zstd_decompress(data: bytes | memoryview, limit: int) -> bytes:
    """What one frame unpacks to, at most `limit` bytes; memory follows the real output, never the size that it claims.

    Raises ValueError for bytes that are no Zstandard frame with a stated content size, do not unpack to that size, or
    state more than `limit`.
    """
    out = bytearray()
    try:
        stated = _content_size(data)
        if stated is None or stated < 0 or stated > limit:
            raise ValueError(f"a frame must state its content size, at most {limit:,} bytes: it states {stated}")
        stream = zstd_stream(data)
        while chunk := stream.read(min(_CHUNK_BYTES, stated + 1 - len(out))):
            out += chunk
            if len(out) > stated:
                break
    except (ZSTD_ERROR, EOFError) as error:
        raise ValueError(f"no whole Zstandard frame: {error}") from error
    if len(out) != stated:
        raise ValueError(f"a frame that states {stated:,} bytes unpacks to {len(out):,} or more")
    return bytes(out)


def _content_size(data: bytes | memoryview) -> int | None:
    if sys.version_info >= (3, 14):
        return zstd.get_frame_info(data).decompressed_size
    return int(zstandard.frame_content_size(data))  # -1 where the frame does not say


def zstd_stream(data: bytes | memoryview) -> Any:
    """A file object that unpacks as it is read; a broken frame raises ZSTD_ERROR or EOFError, or reads short."""
    if sys.version_info >= (3, 14):
        return zstd.ZstdFile(io.BytesIO(data), options={zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})
    return zstandard.ZstdDecompressor(max_window_size=1 << _MAX_WINDOW_LOG).stream_reader(data)


def zstd_file(file: BinaryIO) -> Any:
    """A file object that unpacks `file` as it is read, frame after frame; errors as those of zstd_stream."""
    if sys.version_info >= (3, 14):
        return zstd.ZstdFile(file, options={zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG})
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << _MAX_WINDOW_LOG)
    return unpacker.stream_reader(file, read_across_frames=True, closefd=False)
