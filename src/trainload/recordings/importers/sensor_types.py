"""What a sensor message carries, whatever wrote it: pictures, point clouds and fixed records as stream types.

The parsers (logs/messages/) find the parts of a message; this file says what a
picture of that encoding or a cloud of these fields is as an array, or that it stays opaque bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainload.recordings.format.envelopes import PAYLOAD
from trainload.recordings.format.field_rules import Fields, Rule
from trainload.recordings.format.layouts import GAP_PREFIX, Layout
from trainload.recordings.format.streams import dtype_to_json


class Form(NamedTuple):
    """How the payloads of one stream look; messages of one topic that differ in it become several streams.

    why: what keeps pictures or points from being an array, so that they stay bytes.
    """

    kind: str
    encoding: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None
    fields: tuple[tuple[Fields, Rule], ...] = ()
    layout: Layout | None = None
    why: str = ""


class ParsedMessage(NamedTuple):
    """A message taken apart. stamp_ns: acquisition time, 0 where the message has none. join, offset, shell: how to put
    it together again (recordings/format/envelopes.py)."""

    form: Form
    stamp_ns: int
    data: bytes | memoryview
    join: int = PAYLOAD
    offset: int = 0
    shell: bytes = b""
    frame_id: str = ""


MessageParser = Callable[[memoryview], ParsedMessage]
"""Takes a message apart. Raises ValueError, IndexError or struct.error for bytes that are no such message."""

IMU_DTYPE = np.dtype(
    [
        ("orientation", "<f8", 4),
        ("orientation_covariance", "<f8", 9),
        ("angular_velocity", "<f8", 3),
        ("angular_velocity_covariance", "<f8", 9),
        ("linear_acceleration", "<f8", 3),
        ("linear_acceleration_covariance", "<f8", 9),
    ]
)
ODOMETRY_DTYPE = np.dtype(
    [
        ("position", "<f8", 3),
        ("orientation", "<f8", 4),
        ("pose_covariance", "<f8", 36),
        ("linear_velocity", "<f8", 3),
        ("angular_velocity", "<f8", 3),
        ("twist_covariance", "<f8", 36),
    ]
)
FIX_DTYPE = np.dtype(
    [
        ("latitude", "<f8"),
        ("longitude", "<f8"),
        ("altitude", "<f8"),
        ("position_covariance", "<f8", 9),
        ("position_covariance_type", "|u1"),
        ("status", "|i1"),
        ("service", "<u2"),
    ]
)
_ORIENTATION = (("orientation", "quaternion_xyzw"),)
_FIX_FIELDS = (
    ("longitude", "angle_degrees"),
    ("position_covariance_type", "previous"),
    ("status", "previous"),
    ("service", "previous"),
)
IMU = Form("imu", "raw", IMU_DTYPE, fields=_ORIENTATION)
ODOMETRY = Form("odometry", "raw", ODOMETRY_DTYPE, fields=_ORIENTATION)
FIX = Form("gnss", "raw", FIX_DTYPE, fields=_FIX_FIELDS)

_PIXELS: dict[str, tuple[str, int]] = {
    "rgb8": ("|u1", 3),
    "bgr8": ("|u1", 3),
    "rgba8": ("|u1", 4),
    "bgra8": ("|u1", 4),
    "mono8": ("|u1", 1),
    "rgb16": ("<u2", 3),
    "bgr16": ("<u2", 3),
    "rgba16": ("<u2", 4),
    "bgra16": ("<u2", 4),
    "mono16": ("<u2", 1),
    **{f"bayer_{order}8": ("|u1", 1) for order in ("rggb", "bggr", "gbrg", "grbg")},
    **{f"bayer_{order}16": ("<u2", 1) for order in ("rggb", "bggr", "gbrg", "grbg")},
    **dict.fromkeys(("yuv422", "yuv422_yuy2", "uyvy", "yuyv"), ("|u1", 2)),
}
_CV_TYPE = re.compile(r"(8U|8S|16U|16S|16F|32S|32F|64F)C([1-9]\d?)")  # OpenCV's names
_CV_NUMBERS = {
    "8U": "|u1",
    "8S": "|i1",
    "16U": "<u2",
    "16S": "<i2",
    "16F": "<f2",
    "32S": "<i4",
    "32F": "<f4",
    "64F": "<f8",
}


def picture_form(height: int, width: int, encoding: str, step: int, *, big_endian: bool, size_bytes: int) -> Form:
    """Raw pixels as (h, w) or (h, w, c); padding behind rows and foreign byte order are left to the array (Layout).

    Opaque, and why, where the encoding is no array of pixels or the sizes do not agree. step 0 is taken for no padding.
    """
    found = _pixels(encoding)
    if found is None:
        return Form("camera", encoding or "raw", why=f"pixels of encoding {encoding!r} are no array of numbers")
    dtype, channels = np.dtype(found[0]), found[1]
    row = width * channels * dtype.itemsize
    step = step or row
    if not (0 < row <= step and height > 0 and (height - 1) * step + row <= size_bytes <= height * step):
        why = f"{size_bytes:,} bytes are not {height:,} rows of {step:,} bytes with {width:,} pixels of {encoding}"
        return Form("camera", encoding, why=why)
    shape = (height, width) if channels == 1 else (height, width, channels)
    swapped = big_endian and dtype.itemsize > 1
    if step == row and not swapped:
        return Form("camera", encoding, dtype, shape)
    return Form("camera", encoding, layout=Layout(dtype, shape, swapped, step if step > row else 0))


def _pixels(encoding: str) -> tuple[str, int] | None:
    """Number type and channels."""
    named = _CV_TYPE.fullmatch(encoding)
    return (_CV_NUMBERS[named[1]], int(named[2])) if named else _PIXELS.get(encoding)


def compressed_form(named: str, head: bytes) -> Form:
    """A compressed picture, by its first bytes, else by the name that the message gives ("rgb8; jpeg compressed")."""
    if head.startswith(b"\xff\xd8"):
        return Form("camera", "jpeg")
    if head.startswith(b"\x89PNG"):
        return Form("camera", "png")
    words = named.lower().replace(";", " ").split()
    known = ("compresseddepth", "h264", "h265", "av1", "vp9", "webp", "theora", "jpeg", "png")
    return Form("camera", next((word for word in known if word in words), words[-1] if words else "unknown"))


class Rows(NamedTuple):
    """The rows of an organized cloud: how many, the points in each, and the bytes from one to the next."""

    number: int
    points: int
    bytes: int


def cloud_form(
    fields: Sequence[tuple[str, int, str, int]],
    point_bytes: int,
    size_bytes: int,
    *,
    rows: Rows | None = None,
    big_endian: bool = False,
) -> Form:
    """Points as records. fields: (name, offset, numpy type, count); gaps become fields of bytes called _gap_N.

    rows: left out, points follow one another. Opaque, and why, where fields overlap or leave the point, where sizes do
    not agree, and where the format does not carry them.
    """
    dtype = _point_dtype(fields, point_bytes)
    if isinstance(dtype, str):
        return Form("lidar", "pointcloud", why=dtype)
    if rows is None or size_bytes == rows.number * rows.points * point_bytes:
        if size_bytes % point_bytes:
            return Form("lidar", "pointcloud", why=f"{size_bytes:,} bytes are no points of {point_bytes:,} bytes")
        return Form("lidar", "raw", layout=Layout(dtype, (-1,), True)) if big_endian else Form("lidar", "raw", dtype)
    row = rows.points * point_bytes
    if not (
        0 < row <= rows.bytes
        and rows.number
        and (rows.number - 1) * rows.bytes + row <= size_bytes <= rows.number * rows.bytes
    ):
        why = f"{size_bytes:,} bytes are not {rows.number:,} rows of {rows.bytes:,} bytes with {rows.points:,} points"
        return Form("lidar", "pointcloud", why=why)
    return Form("lidar", "raw", layout=Layout(dtype, (rows.number, rows.points), big_endian, rows.bytes))


def _point_dtype(fields: Sequence[tuple[str, int, str, int]], point_bytes: int) -> np.dtype[Any] | str:
    """The type of a point, or why there is none."""
    parts: list[Any] = []
    place = 0
    for name, offset, kind, count in sorted(fields, key=lambda field: field[1]):
        if not kind:
            return f"field {name!r} has a number type that is not known"
        if offset < place:
            return f"field {name!r} overlaps another one"
        if offset > place:
            parts.append((f"{GAP_PREFIX}{place}", f"|V{offset - place}"))
        parts.append((name, kind) if count == 1 else (name, kind, (count,)))
        place = offset + np.dtype(kind).itemsize * count
        if place > point_bytes:
            return f"field {name!r} ends after the {point_bytes:,} bytes of a point"
    if place < point_bytes and parts:
        parts.append((f"{GAP_PREFIX}{place}", f"|V{point_bytes - place}"))
    if not parts:
        return "points have no fields"
    try:
        dtype = np.dtype(parts)
        dtype_to_json(dtype)
    except (ValueError, TypeError) as error:
        return f"the format does not carry the fields of a point: {error}"
    return dtype
