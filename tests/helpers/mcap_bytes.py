"""MCAP files record by record, for the importer's tests: every record that may grow can have more fields at its end.

Source: the MCAP specification, version 0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

MAGIC = b"\x89MCAP0\r\n"
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, INDEX = range(1, 8)
CHUNK_INDEX, ATTACHMENT, STATISTICS, METADATA, DATA_END = 8, 9, 11, 12, 15
MORE = b"\x01\xff\xff"


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def texts(values: dict[str, str]) -> bytes:
    body = b"".join(text(key) + text(value) for key, value in values.items())
    return struct.pack("<I", len(body)) + body


def record(opcode: int, body: bytes) -> bytes:
    return struct.pack("<BQ", opcode, len(body)) + body


def schema(number: int, name: str, encoding: str = "ros2msg", data: bytes = b"string data") -> bytes:
    return struct.pack("<H", number) + text(name) + text(encoding) + struct.pack("<I", len(data)) + data


def channel(number: int, schema: int, topic: str, encoding: str = "cdr", **metadata: str) -> bytes:
    return struct.pack("<HH", number, schema) + text(topic) + text(encoding) + texts(metadata)


def message(number: int, sequence: int, log_ns: int, data: bytes, publish_ns: int | None = None) -> bytes:
    return struct.pack("<HIQQ", number, sequence, log_ns, log_ns if publish_ns is None else publish_ns) + data


def attachment(log_ns: int, name: str, data: bytes, *, crc: bool = True) -> bytes:
    body = struct.pack("<QQ", log_ns, log_ns + 1) + text(name) + text("text/plain")
    body += struct.pack("<Q", len(data)) + data
    return body + struct.pack("<I", zlib.crc32(body) if crc else 0)


def metadata(name: str, values: dict[str, str]) -> bytes:
    return text(name) + texts(values)


def log(
    definitions: Sequence[tuple[int, bytes]],
    messages: Sequence[bytes],
    others: Sequence[tuple[int, bytes]] = (),
    *,
    chunked: bool = True,
    crcs: bool = True,
    repeated: Sequence[int] | None = (SCHEMA, CHANNEL),
    more: bytes = b"",
) -> bytes:
    """A whole file. definitions, others: (opcode, body). repeated: opcodes of the definitions that the summary repeats;
    None for a file without a summary. more: put behind every record that may grow."""
    out = bytearray(MAGIC + record(HEADER, text("") + text("test") + more))
    index = b""
    if chunked:
        inner = b"".join(record(opcode, body) for opcode, body in definitions)
        inner += b"".join(record(MESSAGE, body) for body in messages)
        at = len(out)
        head = struct.pack("<QQQI", 0, 0, len(inner), zlib.crc32(inner) if crcs else 0)
        out += record(CHUNK, head + text("") + struct.pack("<Q", len(inner)) + inner)
        index = struct.pack("<QQQQ", 0, 0, at, len(out) - at) + struct.pack("<IQ", 0, 0) + text("")
        index += struct.pack("<QQ", len(inner), len(inner))
    else:
        out += b"".join(record(opcode, body + more) for opcode, body in definitions)
        out += b"".join(record(MESSAGE, body) for body in messages)
    out += b"".join(record(opcode, body + more) for opcode, body in others)
    out += record(DATA_END, struct.pack("<I", zlib.crc32(out) if crcs else 0))
    start = len(out)
    if repeated is None:
        return bytes(out) + record(FOOTER, struct.pack("<QQI", 0, 0, 0)) + MAGIC
    out += b"".join(record(opcode, body + more) for opcode, body in definitions if opcode in repeated)
    out += record(CHUNK_INDEX, index + more) if chunked else b""
    foot = struct.pack("<BQQQ", FOOTER, 20, start, 0)
    return bytes(out) + foot + struct.pack("<I", zlib.crc32(out[start:] + foot) if crcs else 0) + MAGIC
