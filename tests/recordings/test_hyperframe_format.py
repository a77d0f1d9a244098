"""HFRM bytes and values: header, index, window records, stream table, sections."""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from published_writer import PublishedWriter
from trainload import FormatError
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import sections
from trainload.recordings.format.records import (
    END_RECORD,
    RECORD_HEAD_BYTES,
    SYNC_WORD,
    Hole,
    RecordHead,
    WindowRecord,
    record_sections_to_bytes,
    record_to_bytes,
    walk_records,
)
from trainload.recordings.format.streams import (
    StreamInfo,
    dtype_from_json,
    dtype_to_json,
    packed_dtype,
    streams_from_bytes,
    streams_to_bytes,
)

FINISHED = hfrm.LITTLE_ENDIAN | hfrm.WINDOW_RECORDS | hfrm.FRAME_CRCS | hfrm.FINALIZED
FILE_ID = bytes(range(16))


def make_header(**changes: Any) -> hfrm.HyperframeHeader:
    header = hfrm.HyperframeHeader(
        flags=FINISHED,
        time_window_start_ns=5,
        time_window_end_ns=900,
        frame_count=2,
        stream_count=1,
        index_offset=1024,
        index_size=64,
        window_ns=100,
        sections_offset=1088,
        sections_size=10,
        file_id=FILE_ID,
    )
    return replace(header, **changes)


def make_index(rows: list[tuple[int, ...]]) -> hfrm.Index:
    return np.array(rows, hfrm.INDEX_DTYPE)


def test_a_header_survives_the_way_through_bytes() -> None:
    header = make_header()
    data = header.to_bytes()
    assert len(data) == 512
    assert hfrm.HyperframeHeader.from_bytes(data, file_size=1098) == header


def test_the_header_lies_as_the_published_table_says() -> None:
    fields = struct.unpack_from("<4sHHIQQIIQQ", make_header().to_bytes())
    assert fields == (b"HFRM", 1, 512, FINISHED, 5, 900, 2, 1, 1024, 64)


def test_a_changed_byte_of_our_header_never_goes_unseen() -> None:
    data = make_header().to_bytes()
    for place in range(512):
        hostile = bytearray(data)
        hostile[place] ^= 1 << (place % 8)
        with pytest.raises(FormatError):
            hfrm.HyperframeHeader.from_bytes(bytes(hostile), file_size=1098)


@pytest.mark.parametrize(
    ("changes", "size", "field"),
    [
        ({"flags": FINISHED & ~1}, 1098, "flags"),
        ({"index_size": 96}, 1098, "index_size"),
        ({"index_offset": 0}, 1098, "index_offset"),
        ({"index_offset": 1 << 63}, 1098, "index_offset"),
        ({"sections_size": 11}, 1098, "sections_offset"),
        ({"sections_offset": 0}, 1098, "sections_offset"),
        ({"window_ns": 0}, 1098, "window_ns"),
        ({"profile_version": 2}, 1098, "profile_version"),
        ({"stream_count": 70_000}, 1098, "stream_count"),
        ({"time_window_end_ns": 1 << 63}, 1098, "time_window_end_ns"),
    ],
)
def test_a_header_that_disagrees_with_the_file_is_refused_by_name(
    changes: dict[str, Any], size: int, field: str
) -> None:
    with pytest.raises(FormatError) as caught:
        hfrm.HyperframeHeader.from_bytes(make_header(**changes).to_bytes(), file_size=size, path="a.hfr")
    assert caught.value.field == field
    assert str(caught.value).endswith("a.hfr")


def test_an_unfinished_file_names_the_recovery_command() -> None:
    data = make_header(flags=FINISHED & ~hfrm.FINALIZED, index_offset=0, index_size=0).to_bytes()
    with pytest.raises(FormatError, match=r"trainload recover drive\.hfr OUT"):
        hfrm.HyperframeHeader.from_bytes(data, file_size=9000, path="drive.hfr")
    assert not hfrm.HyperframeHeader.from_bytes(data, file_size=9000, unfinished_allowed=True).finalized


def test_a_plain_file_is_taken_with_its_quirks(tmp_path: Path) -> None:
    writer = PublishedWriter(tmp_path / "plain.hfr")
    for time, stream in ((30, 1), (10, 1), (20, 0), (10, 0)):
        writer.append(stream, time, bytes([time]) * 100)
    writer.finalize()
    data = (tmp_path / "plain.hfr").read_bytes()
    header = hfrm.HyperframeHeader.from_bytes(data, file_size=len(data))
    assert header.plain and header.window_length_ns == 100_000_000
    index_bytes = data[header.index_offset : header.index_offset + header.index_size]
    index = hfrm.index_from_bytes(index_bytes, header, file_size=len(data))
    assert index["stream_id"].tolist() == [0, 0, 1, 1]
    assert index["timestamp_ns"].tolist() == [10, 20, 10, 30]


def test_the_published_vector_reads_frame_for_frame(at_hand: Callable[[str], Path]) -> None:
    data = at_hand("recordings/plain_unsorted.hfr").read_bytes()
    told = json.loads(at_hand("recordings/plain_unsorted.json").read_text())["frames_in_append_order"]
    header = hfrm.HyperframeHeader.from_bytes(data, file_size=len(data))
    index_bytes = data[header.index_offset : header.index_offset + header.index_size]
    index = hfrm.index_from_bytes(index_bytes, header, file_size=len(data))
    found = [
        (stream, number, time, flags, size, hashlib.sha256(data[offset : offset + size]).hexdigest())
        for stream, flags, number, time, offset, size, _ in index.tolist()
    ]
    expected = [(f["stream"], f["index"], f["timestamp_ns"], f["flags"], f["bytes"], f["sha256"]) for f in told]
    assert found == sorted(expected, key=lambda f: (f[0], f[2]))


def test_the_index_of_4800_frames_takes_153600_bytes() -> None:
    assert 4800 * hfrm.INDEX_ENTRY.size == 4800 * hfrm.INDEX_DTYPE.itemsize == 153_600


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ((0, 0, 0, 5, 0, 10, 0), "byte_offset"),
        ((0, 0, 0, 5, 520, 10, 0), "byte_offset"),
        ((0, 0, 0, 5, 960, 65, 0), "byte_size"),
        ((0, 0, 0, 5, 1 << 63, 1, 0), "byte_size"),
        ((0, 0, 0, (1 << 64) - 64, 512, 1, 0), "timestamp_ns"),
        ((0, 3 << 2, 0, 5, 512, 1, 0), "flags"),
        ((0, 7 << 2, 0, 5, 512, 1, 0), "flags"),
    ],
)
def test_an_index_entry_outside_the_file_or_of_an_unknown_codec_is_refused(row: tuple[int, ...], field: str) -> None:
    data = make_index([row]).tobytes()
    header = make_header(frame_count=1, index_size=32, index_crc=isal_zlib.crc32(data))
    with pytest.raises(FormatError) as caught:
        hfrm.index_from_bytes(data, header, file_size=1024)
    assert caught.value.field == f"index[0].{field}"


def test_our_index_must_be_sorted_and_match_its_crc() -> None:
    rows: list[tuple[int, ...]] = [(1, 0, 0, 5, 512, 10, 0), (0, 0, 0, 5, 576, 10, 0)]
    data = make_index(rows).tobytes()
    header = make_header(index_crc=isal_zlib.crc32(data))
    with pytest.raises(FormatError, match="sorted"):
        hfrm.index_from_bytes(data, header, file_size=1024)
    with pytest.raises(FormatError, match="CRC-32"):
        hfrm.index_from_bytes(data, replace(header, index_crc=0), file_size=1024)


def make_record(offset: int, number: int, frames: list[bytes], *, flags: int = 0) -> bytes:
    """One window's record with its frames, as they lie in a file at `offset`."""
    side = record_sections_to_bytes([(b"META", b"{}")])
    size = RECORD_HEAD_BYTES + 32 * len(frames) + len(side) + 8
    place, rows, body = offset + hfrm.align(size), [], b""
    for n, frame in enumerate(frames):
        rows.append(hfrm.INDEX_ENTRY.pack(n, 1, number, number * 100, place, len(frame), isal_zlib.crc32(frame)))
        padded = frame.ljust(hfrm.align(len(frame)), b"\0")
        place, body = place + len(padded), body + padded
    head = RecordHead(FILE_ID, number, number * 100, number * 100 + 99, place - offset, len(frames), len(side), flags)
    return record_to_bytes(head, rows, side).ljust(hfrm.align(size), b"\0") + body


def make_windows(count: int, *, end: bool = True) -> bytes:
    data = bytes(512)
    for number in range(count):
        data += make_record(len(data), number, [bytes([number + 1]) * 70, b"xy"])
    return data + (make_record(len(data), count, [], flags=END_RECORD) if end else b"")


def walk(data: bytes, **options: Any) -> list[WindowRecord | Hole]:
    return list(walk_records(lambda offset, size: data[offset : offset + size], len(data), **options))


def test_the_walk_finds_every_record_and_stops_at_the_end_record() -> None:
    data = make_windows(3) + b"index and sections".ljust(192, b".")
    found = walk(data)
    records = [record for record in found if isinstance(record, WindowRecord)]
    assert len(records) == len(found)
    assert [record.head.window_number for record in records] == [0, 1, 2, 3]
    assert [record.last for record in records] == [False, False, False, True]
    assert records[1].entries["byte_size"].tolist() == [70, 2]
    assert records[1].sections == ((b"META", b"{}"),)


@pytest.mark.parametrize("place", ["sync", "head", "entries", "crc", "commit"])
def test_the_walk_goes_on_after_a_damaged_record(place: str) -> None:
    data = bytearray(make_windows(4))
    start = 512 + len(make_record(512, 0, [b"z" * 70, b"xy"]))
    size = RecordHead.from_bytes(bytes(data[start : start + 80]), offset=start, room=1 << 20).record_size
    at = {"sync": 0, "head": 41, "entries": 100, "crc": size - 8, "commit": size - 1}[place]
    data[start + at] ^= 0x40
    found = walk(bytes(data))
    holes = [one for one in found if isinstance(one, Hole)]
    assert len(holes) == 1 and holes[0].offset == start
    assert [one.head.window_number for one in found if isinstance(one, WindowRecord)] == [0, 2, 3, 4]


def test_records_of_another_recording_are_no_records() -> None:
    ours = make_windows(2, end=False)
    old = make_windows(4, end=False)[len(ours) :].replace(FILE_ID, bytes(16))
    assert [type(one) for one in walk(ours + old)] == [WindowRecord, WindowRecord, Hole]


def test_a_sync_word_inside_a_payload_is_not_taken_for_a_record() -> None:
    data = bytes(512)
    data += make_record(512, 0, [SYNC_WORD + bytes(200)])
    data += make_record(len(data), 1, [b"a"])
    hostile = bytearray(data)
    hostile[520] ^= 1
    assert [type(one) for one in walk(bytes(hostile))] == [Hole, WindowRecord]


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_damage_gives_records_or_holes(rng: random.Random) -> None:
    data = bytearray(make_windows(5))
    for _ in range(rng.randint(1, 20)):
        data[rng.randrange(512, len(data))] = rng.randrange(256)
    del data[rng.randint(512, len(data)) :]
    for found in walk(bytes(data)):
        if isinstance(found, WindowRecord):
            assert found.head.window_number <= 5
        else:
            assert 512 <= found.offset < found.end <= len(data)


CLOUD = np.dtype([("x", "<f4"), ("y", "<f4"), ("cov", "<f8", (3, 3)), ("ring", "u1")])
STREAMS = [
    StreamInfo(0, "camera/front", "camera", "jpeg", rate_hz=30.0, frame_duration_ns=5_000_000),
    StreamInfo(1, "lidar", "lidar", dtype=CLOUD, shape=(-1,), codec="zstd:9", shuffle=81, clock="host"),
    StreamInfo(7, "imu", "imu", dtype=packed_dtype(np.dtype("<f4")), packed=True, calibration={"to": [1, 2.5, "x"]}),
]


def test_a_stream_table_survives_the_way_through_bytes() -> None:
    assert streams_from_bytes(streams_to_bytes(STREAMS)) == STREAMS


def test_a_packed_sample_starts_with_its_time() -> None:
    assert STREAMS[2].dtype == np.dtype([("timestamp_ns", "<u8"), ("value", "<f4")])
    assert packed_dtype(CLOUD).names == ("timestamp_ns", "x", "y", "cov", "ring")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[1]",
        b'[{"id": 1}]',
        b'[{"id": -1, "name": "a"}]',
        b'[{"id": true, "name": "a"}]',
        b'[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]',
        b'[{"id": 1, "name": "a"}, {"id": 2, "name": "a"}]',
        b'[{"id": 1, "name": "a", "dtype": "O"}]',
        b'[{"id": 1, "name": "a", "dtype": ">f4"}]',
        b'[{"id": 1, "name": "a", "dtype": [["x", "<f4", [4000, 4000, 4000]]]}]',
        b'[{"id": 1, "name": "a", "dtype": [["x", [["y", "<f4"]]]]}]',
        b'[{"id": 1, "name": "a", "dtype": "S99999"}]',
        b'[{"id": 1, "name": "a", "dtype": [["x", "<f4"], ["x", "<f4"]]}]',
        b'[{"id": 1, "name": "a", "shape": [-1, -1]}]',
        b'[{"id": 1, "name": "a", "clock": "sun"}]',
        b'[{"id": 1, "name": "a", "rate_hz": "fast"}]',
        b"[" * 100_000,
        b"\xff\xfe",
        b'[{"id": 1e999, "name": "a"}]',
    ],
)
def test_a_broken_stream_table_is_a_format_error(body: bytes) -> None:
    with pytest.raises(FormatError):
        streams_from_bytes(body)


@pytest.mark.parametrize("dtype", ["O", ">f4", "M8[ns]", [("a", [("b", "<f4")])], np.dtype("i4,f8", align=True)])
def test_types_that_the_table_cannot_carry_are_refused(dtype: Any) -> None:
    with pytest.raises(ValueError):
        dtype_to_json(np.dtype(dtype))


def test_plain_types_and_fields_survive() -> None:
    for dtype in (np.dtype("<f4"), np.dtype("u1"), np.dtype("?"), np.dtype("S5"), CLOUD):
        assert dtype_from_json(json.loads(json.dumps(dtype_to_json(dtype)))) == dtype


def test_section_bodies_survive_and_broken_ones_are_format_errors() -> None:
    drops = [sections.Drop(3, "drop_oldest", 5, 500)]
    assert sections.drops_from_bytes(sections.drops_to_bytes(drops)) == drops
    assert sections.meta_from_bytes(sections.meta_to_bytes({"car": 7})) == {"car": 7}
    assert sections.durations_from_bytes(b"\1\0\0\0", entries=1).tolist() == [1]
    for parse, body in (
        (sections.drops_from_bytes, b'[{"stream": 1}]'),
        (sections.drops_from_bytes, b'["x"]'),
        (sections.drops_from_bytes, b"7"),
        (sections.meta_from_bytes, b"[]"),
        (sections.meta_from_bytes, b"{"),
    ):
        with pytest.raises(FormatError):
            parse(body)
    with pytest.raises(FormatError):
        sections.receive_times_from_bytes(bytes(12), entries=1)
