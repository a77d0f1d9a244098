"""What a sensor message carries, whatever wrote it: pictures, point clouds and fixed records as stream types.

The parsers (ros_messages.py, protobuf_messages.py, json_messages.py) find the parts of a message; this file says what a
picture of that encoding or a cloud of these fields is as an array, or that it stays opaque bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainload.formats.envelopes import PAYLOAD
from trainload.formats.field_rules import Fields, Rule
from trainload.formats.hyperframe_streams import dtype_to_json


class Form(NamedTuple):
    """How the payloads of one stream look; messages of one topic that differ in it become several streams."""

    kind: str
    encoding: str
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None
    fields: tuple[tuple[Fields, Rule], ...] = ()


class Split(NamedTuple):
    """A message taken apart. stamp_ns: acquisition time, 0 where the message has none. join, offset, shell: how to put
    it together again (formats/envelopes.py)."""

    form: Form
    stamp_ns: int
    data: bytes | memoryview
    join: int = PAYLOAD
    offset: int = 0
    shell: bytes = b""
    frame_id: str = ""


Splitter = Callable[[memoryview], Split]
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
    ("longitude", "angle_degrees"), ("position_covariance_type", "previous"), ("status", "previous"),
    ("service", "previous"),
)  # fmt: skip
IMU = Form("imu", "raw", IMU_DTYPE, fields=_ORIENTATION)
ODOMETRY = Form("odometry", "raw", ODOMETRY_DTYPE, fields=_ORIENTATION)
FIX = Form("gnss", "raw", FIX_DTYPE, fields=_FIX_FIELDS)

_PIXELS: dict[str, tuple[str, int]] = {
    "rgb8": ("|u1", 3), "bgr8": ("|u1", 3), "rgba8": ("|u1", 4), "bgra8": ("|u1", 4),
    "8UC1": ("|u1", 1), "8UC3": ("|u1", 3), "8UC4": ("|u1", 4), "mono8": ("|u1", 1),
    "mono16": ("<u2", 1), "16UC1": ("<u2", 1), "32FC1": ("<f4", 1), "rgb16": ("<u2", 3), "bgr16": ("<u2", 3),
    "bayer_rggb8": ("|u1", 1), "bayer_bggr8": ("|u1", 1), "bayer_gbrg8": ("|u1", 1), "bayer_grbg8": ("|u1", 1),
}  # fmt: skip


def picture_form(height: int, width: int, encoding: str, step: int, *, big_endian: bool, size_bytes: int) -> Form:
    """Raw pixels as (h, w) or (h, w, c); opaque where rows are padded, bytes are in foreign order or sizes differ."""
    found = _PIXELS.get(encoding)
    if found is None:
        return Form("camera", encoding or "raw")
    dtype, channels = np.dtype(found[0]), found[1]
    tight = step == width * channels * dtype.itemsize and size_bytes == height * step and size_bytes > 0
    if not tight or (big_endian and dtype.itemsize > 1):
        return Form("camera", encoding)
    return Form("camera", encoding, dtype, (height, width) if channels == 1 else (height, width, channels))


def compressed_form(named: str, head: bytes) -> Form:
    """A compressed picture, by its first bytes, else by the name that the message gives ("rgb8; jpeg compressed")."""
    if head.startswith(b"\xff\xd8"):
        return Form("camera", "jpeg")
    if head.startswith(b"\x89PNG"):
        return Form("camera", "png")
    words = named.lower().replace(";", " ").split()
    known = ("compresseddepth", "h264", "h265", "av1", "vp9", "webp", "theora", "jpeg", "png")
    return Form("camera", next((word for word in known if word in words), words[-1] if words else "unknown"))


def cloud_form(fields: Sequence[tuple[str, int, str, int]], point_bytes: int, size_bytes: int) -> Form:
    """Points as records. fields: (name, offset, numpy type, count); gaps become fields of bytes called _gap_N.

    Opaque where fields overlap, leave the point, or the format does not carry them.
    """
    parts: list[Any] = []
    place = 0
    for name, offset, kind, count in sorted(fields, key=lambda field: field[1]):
        if offset < place:
            return Form("lidar", "pointcloud")
        if offset > place:
            parts.append((f"_gap_{place}", f"|V{offset - place}"))
        parts.append((name, kind) if count == 1 else (name, kind, (count,)))
        place = offset + np.dtype(kind).itemsize * count
    if place < point_bytes:
        parts.append((f"_gap_{place}", f"|V{point_bytes - place}"))
    try:
        dtype = np.dtype(parts)
        dtype_to_json(dtype)
    except (ValueError, TypeError):
        return Form("lidar", "pointcloud")
    if not parts or dtype.itemsize != point_bytes or size_bytes % point_bytes:
        return Form("lidar", "pointcloud")
    return Form("lidar", "raw", dtype)
