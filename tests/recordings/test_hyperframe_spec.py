"""docs/spec/hyperframe.md is enough: a reader and a recovery written from it alone, without the package's code."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import pytest
import zstandard

from trainload.recordings.writing.writer import HyperframeWriter

Row = tuple[int, ...]  # stream id, flags, stream index, timestamp, offset, size, crc
ENTRY = struct.Struct("<HHIQQII")
SYNC_WORD = bytes.fromhex("48 46 57 e2 96 b6 0d 0a 1a 0a 9f c3 5d 71 e8 04")


def header_of(data: bytes) -> dict[str, int]:
    """Section 1."""
    assert data[:4] == b"HFRM" and struct.unpack_from("<HH", data, 4) == (1, 512)
    assert struct.unpack_from("<H", data, 96) == (1,) and not any(data[98:508])
    assert struct.unpack_from("<I", data, 508) == (zlib.crc32(data[:508]),)
    names = ("flags", "start", "end", "frames", "streams", "index", "index_size", "window", "sections", "sections_size")
    header = dict(zip(names, struct.unpack_from("<IQQIIQQQQQ", data, 8)))
    header["index_crc"] = struct.unpack_from("<I", data, 92)[0]
    assert header["flags"] & 0b1101 == 0b1101 and header["flags"] >> 31
    return header


def index_of(data: bytes, header: dict[str, int]) -> list[Row]:
    """Section 2."""
    body = data[header["index"] : header["index"] + header["index_size"]]
    assert zlib.crc32(body) == header["index_crc"] and len(body) == 32 * header["frames"]
    rows = list(ENTRY.iter_unpack(body))
    assert rows == sorted(rows, key=lambda row: (row[0], row[3], row[2]))
    return rows


def payload_of(data: bytes, row: Row, stream: dict[str, Any]) -> bytes:
    """Section 3."""
    _, flags, _, _, offset, size, crc = row
    stored = data[offset : offset + size]
    assert offset % 64 == 0 and len(stored) == size and zlib.crc32(stored) == crc
    codec = flags >> 2 & 7
    if codec == 1:
        stored = lz4.block.decompress(stored[4:], uncompressed_size=struct.unpack_from("<I", stored)[0])
    elif codec == 2:
        stored = zstandard.ZstdDecompressor().decompress(stored)
    if not flags >> 5 & 1:
        return stored
    e, n = stream["shuffle"], len(stored) // stream["shuffle"]
    return bytes(stored[plane * n + k] for k in range(n) for plane in range(e)) + stored[n * e :]


def windows_by_the_rule(times: list[int], length: int) -> list[tuple[int, int]]:
    """Section 4: (start, frames)."""
    windows: list[tuple[int, int]] = []
    while times:
        taken = [time for time in times if time <= times[0] + length]
        windows.append((times[0], len(taken)))
        times = times[len(taken) :]
    return windows


def sections_of(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Section 7."""
    at = 0
    while at < len(body):
        tag, size, crc = struct.unpack_from("<4sQI", body, at)
        content = body[at + 16 : at + 16 + size]
        assert zlib.crc32(content) == crc
        yield tag, content
        at += 16 + size


def recovered_rows(data: bytes) -> tuple[list[Row], list[dict[bytes, bytes]]]:
    """Section 9, for a file that was cut off: the entries of the whole frames, and each record's sections."""
    rows: list[Row] = []
    found: list[dict[bytes, bytes]] = []
    at = 512
    while at + 80 <= len(data):
        sync, file_id, _, _, _, extent, n, s, flags, crc = struct.unpack_from("<16s16sQQQQIIII", data, at)
        size = 80 + 32 * n + s + 8
        good = sync == SYNC_WORD and crc == zlib.crc32(data[at : at + 76]) and file_id == data[76:92]
        record = data[at : at + size] if good else b""
        if len(record) < size or not good:
            at += 64
            continue
        assert record[-8:] == struct.pack("<I", zlib.crc32(record[:-8])) + b"HFwc"
        for row in ENTRY.iter_unpack(record[80 : 80 + 32 * n]):
            if zlib.crc32(data[row[4] : row[4] + row[5]]) == row[6] and row[4] + row[5] <= len(data):
                rows.append(row)
        found.append(dict(sections_of(record[80 + 32 * n : -8])))
        if flags & 1:
            break
        at += extent
    return rows, found


SAMPLE = np.dtype([("gyro", "<f4"), ("temperature", "<i2")])


@pytest.fixture
def recording(tmp_path: Path) -> bytes:
    with HyperframeWriter(tmp_path / "a.hfr", window="50ms", lateness=0, meta={"car": 1}) as writer:
        for name, codec, shuffle in (("a", "none", False), ("b", "lz4", True), ("c", "zstd", 3)):
            writer.add_stream(name, dtype="<f4", codec=codec, shuffle=shuffle)
        writer.add_stream("imu", dtype=SAMPLE, packed=True, codec="zstd", shuffle=True, clock="host")
        for tick in range(400):
            time = tick * 5_000_000
            writer.append("imu", time, np.array((tick, -tick), SAMPLE))
            if tick % 9 == 0:
                for name in "abc":
                    writer.append(name, time + ord(name), content(name, tick), receive_ns=time + 1, duration_ns=tick)
            if tick % 100 == 50:
                writer.append("a", time - 200_000_000, b"late")
    return (tmp_path / "a.hfr").read_bytes()


def content(name: str, tick: int) -> bytes:
    return (np.arange(200, dtype="<f4") + tick + ord(name)).tobytes() + b"tail"


def check_frames(data: bytes, rows: list[Row], table: list[dict[str, Any]]) -> None:
    for row in rows:
        stream = table[row[0]]
        payload, time = payload_of(data, row, stream), row[3]
        if stream["packed"]:
            assert row[1] >> 8 & 1 and not row[1] >> 1 & 1
            samples = np.frombuffer(payload, [tuple(field) for field in stream["dtype"]])
            ticks = samples["gyro"].astype(np.uint64)
            assert samples["timestamp_ns"][0] == time and np.array_equal(samples["timestamp_ns"], ticks * 5_000_000)
        elif row[1] >> 6 & 1:
            assert payload == b"late"
        else:
            assert payload == content(stream["name"], time // 5_000_000) and row[1] & 3 == 3


def test_a_reader_written_from_the_spec_reads_everything(recording: bytes) -> None:
    header = header_of(recording)
    rows = index_of(recording, header)
    end = header["sections"] + header["sections_size"]
    sections = dict(sections_of(recording[header["sections"] : end]))
    assert end == len(recording) and sections[b"META"] == b'{"car":1}'
    check_frames(recording, rows, json.loads(sections[b"STRM"]))
    assert sum(row[0] < 3 for row in rows) == 45 * 3 + 4
    received = struct.unpack(f"<{len(rows)}Q", sections[b"RECV"])
    lasted = struct.unpack(f"<{len(rows)}I", sections[b"DURA"])
    for row, receive, duration in zip(rows, received, lasted):
        if row[0] < 3 and not row[1] >> 6 & 1:
            assert receive == row[3] - ord("abc"[row[0]]) + 1 and duration == receive // 5_000_000


def test_the_window_table_is_that_of_the_spec(recording: bytes) -> None:
    header = header_of(recording)
    rows = index_of(recording, header)
    body = dict(sections_of(recording[header["sections"] :]))[b"WNDW"]
    w, s = struct.unpack_from("<II", body)
    starts, ends, offsets, sizes = np.frombuffer(body, "<u8", 4 * w, 8).reshape(4, w)
    ids = np.frombuffer(body, "<u2", s, 8 + 32 * w)
    first, count = np.frombuffer(body, "<u4", 2 * w * s, 8 + 32 * w + 2 * s).reshape(2, w, s)
    expected = windows_by_the_rule(sorted(row[3] for row in rows), header["window"])
    assert [(start, frames) for start, frames in zip(starts.tolist(), count.sum(axis=1).tolist())] == expected
    assert (header["start"], header["end"]) == (starts[0], ends[-1]) and ids.tolist() == [0, 1, 2, 3]
    for k in range(w):
        mine = [
            row
            for j, stream in enumerate(ids)
            for row in [row for row in rows if row[0] == stream][first[k, j] :][: count[k, j]]
        ]
        assert all(starts[k] <= row[3] <= ends[k] for row in mine)
        on_time = [row for row in mine if not row[1] >> 6 & 1]
        assert offsets[k] == min(row[4] for row in on_time)
        assert offsets[k] + sizes[k] == max(row[4] + row[5] for row in on_time)


def test_a_recovery_written_from_the_spec_finds_all_but_the_end(recording: bytes) -> None:
    rows, sections = recovered_rows(recording)
    assert sorted(rows, key=lambda row: (row[0], row[3], row[2])) == index_of(recording, header_of(recording))
    table = json.loads(sections[0][b"STRM"])
    assert json.loads(sections[-1][b"STRM"]) == table
    cut = recording[: len(recording) // 2]
    some, _ = recovered_rows(cut)
    assert 0.3 < len(some) / len(rows) < 0.6 and some == rows[: len(some)]
    check_frames(cut, some, table)
