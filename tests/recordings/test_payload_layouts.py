"""Padded rows, padded points and big-endian numbers come out as numbers, and what stays bytes is said."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from present import present
from trainload.errors import FormatError
from trainload.recordings.exporters.frame_files import extract_frames
from trainload.recordings.format.envelopes import SPLICE
from trainload.recordings.format.layouts import Layout
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.importers.logs.topics import LogMessage, TopicStreams
from trainload.recordings.importers.sensor_types import Rows, cloud_form, picture_form
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream
from trainload.recordings.writing.writer import HyperframeWriter

NUMBERS = ["|u1", "<u2", "<i2", "<f4", "<f8"]
ENCODINGS = {"|u1": "8UC", "<u2": "16UC", "<i2": "16SC", "<f4": "32FC", "<f8": "64FC"}


def stored(path: Path, payload: bytes, **about: Any) -> np.ndarray:
    with HyperframeWriter(path, overwrite=True) as writer:
        writer.append(writer.add_stream("s", **about), 0, payload)
    with tl.open_recording(path) as drive:
        return drive.read_at_index("s", 0).array()


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(NUMBERS),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 9),
    st.booleans(),
    st.booleans(),
)
def test_pictures_lose_their_padding_and_their_order_of_bytes(
    kind: str, height: int, width: int, channels: int, padding: int, big: bool, cut: bool
) -> None:
    dtype = np.dtype(kind)
    pixels = np.random.default_rng(7).integers(0, 250, (height, width, channels)).astype(dtype)
    rows = pixels.astype(dtype.newbyteorder(">")) if big else pixels
    payload = b"".join(row.tobytes() + b"\xee" * padding for row in rows)  # the oracle: row by row
    payload = payload[: len(payload) - padding] if cut else payload
    step = width * channels * dtype.itemsize + padding
    encoding = f"{ENCODINGS[kind]}{channels}"
    form = picture_form(height, width, encoding, step, big_endian=big, size_bytes=len(payload))
    assert not form.why
    info = StreamInfo(0, "s", dtype=form.dtype, shape=form.shape or (-1,), layout=form.layout)
    info = StreamInfo.from_json(json.loads(json.dumps(info.to_json())))
    expected = pixels[:, :, 0] if channels == 1 else pixels
    if info.layout is None:
        found = np.frombuffer(payload, info.dtype).reshape(info.shape)
    else:
        found = info.layout.array(memoryview(payload))
    assert found.dtype.isnative and found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("encoding", "shape", "dtype"),
    [
        ("bayer_rggb16", (4, 6), "u2"),
        ("bayer_grbg16", (4, 6), "u2"),
        ("16UC3", (4, 6, 3), "u2"),
        ("32FC1", (4, 6), "f4"),
        ("yuv422", (4, 6, 2), "u1"),
        ("rgba16", (4, 6, 4), "u2"),
        ("bgr8", (4, 6, 3), "u1"),
    ],
)
def test_encodings_have_their_number_type(encoding: str, shape: tuple[int, ...], dtype: str) -> None:
    step = int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
    form = picture_form(4, 6, encoding, step, big_endian=False, size_bytes=4 * step)
    assert (form.dtype, form.shape, form.layout) == (np.dtype(dtype), shape, None)
    assert picture_form(4, 6, encoding, 0, big_endian=False, size_bytes=4 * step) == form


def test_what_is_no_picture_stays_bytes_and_says_why() -> None:
    assert "'nv12'" in picture_form(4, 6, "nv12", 6, big_endian=False, size_bytes=36).why
    assert "rows of 5 bytes" in picture_form(4, 6, "mono8", 5, big_endian=False, size_bytes=20).why
    assert "10 bytes are not 4 rows" in picture_form(4, 6, "mono8", 6, big_endian=False, size_bytes=10).why


FIELDS = [("x", 0, "<f4", 1), ("y", 4, "<f4", 1), ("z", 8, "<f4", 1), ("intensity", 16, "<f4", 1)]
POINT = {"names": ["x", "y", "z", "intensity"], "offsets": [0, 4, 8, 16], "itemsize": 32}


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("padding", [None, 0, 24])
def test_points_are_numbers_without_what_lies_between_them(tmp_path: Path, big: bool, padding: int | None) -> None:
    points = np.zeros((2, 5), {**POINT, "formats": [">f4" if big else "<f4"] * 4})  # type: ignore[call-overload]
    for n, name in enumerate(points.dtype.names):
        points[name] = np.arange(10).reshape(2, 5) + n / 4
    payload = b"".join(row.tobytes() + b"\xee" * (padding or 0) for row in points)
    rows = Rows(2, 5, 0 if padding is None else 160 + padding)  # drivers leave the size of a row out
    form = cloud_form(FIELDS, 32, len(payload), rows=rows, big_endian=big)
    assert not form.why
    about = {"layout": form.layout} if form.layout else {"dtype": form.dtype}
    found = stored(tmp_path / "a.hfr", payload, kind="lidar", **about)
    assert found.shape == (10,) and found.dtype.names == ("x", "y", "z", "intensity")
    value = present(tl.WindowDataset(tmp_path / "a.hfr")[0].values["s"][0])
    assert value.dtype == np.float32 and value.dtype.isnative
    expected = np.stack([points[name].ravel() for name in points.dtype.names], axis=-1)
    assert np.array_equal(value, expected)


def test_an_extracted_frame_is_the_array(tmp_path: Path) -> None:
    pixels = np.arange(24, dtype=">u2").reshape(4, 6)
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        depth = writer.add_stream("depth", kind="camera", layout=Layout(np.dtype("<u2"), (4, 6), True))
        writer.append(depth, 7, pixels.tobytes())
        cloud = cloud_form(FIELDS, 32, 64)
        points = writer.add_stream("points", kind="lidar", dtype=cloud.dtype)
        writer.append(points, 7, np.arange(16, dtype="<f4").tobytes())
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        extract_frames(drive, tmp_path / "out")
    found = {path.parent.name: np.load(path) for path in (tmp_path / "out").rglob("*.npy")}
    assert np.array_equal(found["depth"], pixels) and found["points"]["intensity"].tolist() == [4, 12]


def test_recordings_of_older_imports_lose_their_gaps_too(tmp_path: Path) -> None:
    dtype = np.dtype([("x", "<f4"), ("_gap_4", "|V4"), ("ring", "<u2"), ("_gap_10", "|V6")])
    points = np.zeros(3, dtype)
    points["x"], points["ring"] = [1, 2, 3], [7, 8, 9]
    found = stored(tmp_path / "a.hfr", points.tobytes(), dtype=dtype)
    assert found.dtype.names == ("x", "ring") and found["ring"].tolist() == [7, 8, 9]
    value = present(tl.WindowDataset(tmp_path / "a.hfr")[0].values["s"][0])
    assert value.dtype.kind == "f" and value.tolist() == [[1, 7], [2, 8], [3, 9]]


def test_points_that_are_no_records_say_why() -> None:
    over = [("rgb", 0, "<f4", 1), ("r", 2, "|u1", 1)]
    for fields, size, rows, why in (
        (over, 16, None, "'r' overlaps"),
        ([("x", 0, "", 1)], 16, None, "not known"),
        ([], 16, None, "no fields"),
        (FIELDS, 33, None, "33 bytes"),
        (FIELDS, 100, Rows(2, 5, 160), "are not 2 rows"),
        ([("x", 30, "<f4", 1)], 32, None, "ends after"),
    ):
        form = cloud_form(fields, 32, size, rows=rows)
        assert form.dtype is None and form.layout is None and why in form.why


def test_a_layout_from_a_file_is_checked(tmp_path: Path) -> None:
    good = {"dtype": "<u2", "shape": [4, 6], "big_endian": True, "row_bytes": 16}
    table = {**StreamInfo(0, "s").to_json(), "layout": good}
    info = StreamInfo.from_json(table)
    assert info.layout == Layout(np.dtype("<u2"), (4, 6), True, 16) and not info.is_opaque
    for bad in (
        {"row_bytes": 11},
        {"row_bytes": -1},
        {"shape": [-1, 6]},
        {"shape": [4]},
        {"dtype": ">u2"},
        {"shape": [1 << 31, 1 << 31]},
        {"big_endian": 1},
    ):
        with pytest.raises(ValueError, match=r"row|shape|dtype|big_endian"):
            StreamInfo.from_json({**table, "layout": {**good, **bad}})
    with pytest.raises(FormatError, match="stream s"):
        stored(tmp_path / "a.hfr", bytes(10), layout=Layout(np.dtype("<u2"), (4, 6), True, 16))
    with pytest.raises(tl.UsageError, match="stands for dtype"):
        stored(tmp_path / "b.hfr", b"", dtype="<u2", layout=Layout(np.dtype("<u2"), (4, 6)))


def cdr_text(text: str, place: int) -> bytes:
    data = text.encode() + b"\0"
    return bytes(-place % 4) + struct.pack("<I", len(data)) + data


def image_message(encoding: str, payload: bytes, step: int) -> bytes:
    body = struct.pack("<iI", 5, 0)
    body += cdr_text("cam", len(body))
    body += bytes(-len(body) % 4) + struct.pack("<II", 4, 6)
    body += cdr_text(encoding, len(body)) + b"\0"
    return b"\0\1\0\0" + body + bytes(-len(body) % 4) + struct.pack("<II", step, len(payload)) + payload


def test_an_import_says_what_stays_bytes_and_keeps_every_byte() -> None:
    channel = Channel("/cam", "sensor_msgs/msg/Image", "cdr")
    topics = TopicStreams([channel], Damage())
    frames: list[Any] = []
    for encoding, size, step in (("nv12", 36, 6), ("nv12", 36, 6), ("mono8", 32, 8)):
        message = image_message(encoding, bytes(range(size)), step)
        frames += topics.items(LogMessage(0, 10**9, 10**9, 0, memoryview(message)))
        last = frames[-1]
        assert isinstance(last, SourceFrame) and last.wrapping is not None and last.wrapping.join == SPLICE
        shell, at = last.wrapping.shell, last.wrapping.offset
        assert shell[:at] + bytes(last.data) + shell[at:] == message
    assert topics.notes() == [
        "2 messages of /cam are kept as bytes, not as an array: pixels of encoding 'nv12' are no array of numbers"
    ]
    streams = [item for item in frames if isinstance(item, SourceStream)]
    assert [stream.layout for stream in streams] == [None, Layout(np.dtype("|u1"), (4, 6), False, 8)]
