"""ROS messages taken apart without a message library: little-endian CDR (ROS 2) and the ROS 1 serialization.

Only where a payload begins and ends is read, so a point cloud costs what its header costs. Source: the OMG CDR rules
(XCDR1: alignment to the item's size, counted from after the 4-byte encapsulation) and the ROS 1 wire format.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import numpy as np

from trainload.formats.envelopes import SHELL, SPLICE
from trainload.importers.forms import FIX, FIX_DTYPE, IMU, ODOMETRY, Form, Split, Splitter, cloud_form, compressed_form
from trainload.importers.forms import picture_form as raw_picture_form
from trainload.importers.source import Channel

_CDR_LE, _CDR_BE = (b"\x00\x01", b"\x00\x00")
_POINT_TYPES = {1: "|i1", 2: "|u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 8: "<f8"}
_MAX_FIELDS = 256
_HEADER_FIRST = re.compile(r"^(?:std_msgs/(?:msg/)?)?Header\s+\w+")
_CONSTANT_OR_EMPTY = re.compile(r"^\s*(?:#.*)?$|^\s*[\w/]+\s+\w+\s*=")


class Cursor:
    """Reads the fields of a message in order, bounded by its size."""

    def __init__(self, data: memoryview, *, ros1: bool, order: str = "<") -> None:
        self.data = data
        self.ros1 = ros1
        self.order = order
        self.origin = 0 if ros1 else 4
        self.place = self.origin

    def align(self, size: int) -> None:
        """Skip CDR's padding before an item of that size; ROS 1 has none."""
        if not self.ros1:
            self.place += -(self.place - self.origin) % size

    def number(self, code: str) -> int:
        """One number, `code` as in `struct`."""
        size = struct.calcsize(f"={code}")
        self.align(size)
        value: int = struct.unpack_from(f"{self.order}{code}", self.data, self.place)[0]
        self.place += size
        return value

    def text(self) -> str:
        """A string; CDR counts its closing zero."""
        return bytes(self.bytes()).rstrip(b"\0").decode("utf-8", "replace")

    def bytes(self) -> memoryview:
        """A sequence of bytes. Raises ValueError where it would leave the message."""
        size = self.number("I")
        if size > len(self.data) - self.place:
            raise ValueError(f"a sequence of {size:,} bytes where {len(self.data) - self.place:,} are left")
        self.place += size
        return self.data[self.place - size : self.place]

    def header(self) -> tuple[int, str]:
        """A std_msgs/Header: (stamp in ns, 0 where it is unset or impossible, frame id)."""
        if self.ros1:
            self.number("I")
        seconds, nanoseconds = self.number("I" if self.ros1 else "i"), self.number("I")
        good = seconds >= 0 and nanoseconds < 1_000_000_000
        return seconds * 1_000_000_000 + nanoseconds if good else 0, self.text()


def ros_splitter(channel: Channel) -> Splitter:
    """How messages of this channel come apart: known sensor types into payload and shell, others stay whole.

    A type that is not known but begins with a Header gives its stamp.
    """
    ros1 = channel.encoding == "ros1"
    whole = Form("generic", channel.encoding)
    known = _KNOWN.get(channel.type_name.replace("/msg/", "/"))
    headed = known is not None or _begins_with_header(channel)

    def split(data: memoryview) -> Split:
        if not ros1 and bytes(data[:2]) != _CDR_LE:
            return Split(whole, _stamp(data, ">") if headed and bytes(data[:2]) == _CDR_BE else 0, data)
        if known is not None:
            return known(Cursor(data, ros1=ros1))
        return Split(whole, Cursor(data, ros1=ros1).header()[0] if headed else 0, data)

    return split


def _stamp(data: memoryview, order: str) -> int:
    return Cursor(data, ros1=False, order=order).header()[0]


def _begins_with_header(channel: Channel) -> bool:
    if channel.schema_encoding not in ("ros2msg", "ros1msg"):
        return False
    for line in channel.schema.decode("utf-8", "replace").splitlines():
        if not _CONSTANT_OR_EMPTY.match(line):
            return _HEADER_FIRST.match(line.strip()) is not None
    return False


def _spliced(form: Form, stamp: int, frame_id: str, whole: memoryview, start: int, end: int) -> Split:
    shell = bytes(whole[:start]) + bytes(whole[end:])
    return Split(form, stamp, whole[start:end], SPLICE, start, shell, frame_id)


def _image(cursor: Cursor) -> Split:
    stamp, frame_id = cursor.header()
    height, width, encoding = cursor.number("I"), cursor.number("I"), cursor.text()
    big_endian, step = bool(cursor.number("B")), cursor.number("I")
    size = len(cursor.bytes())
    form = raw_picture_form(height, width, encoding, step, big_endian=big_endian, size_bytes=size)
    return _spliced(form, stamp, frame_id, cursor.data, cursor.place - size, cursor.place)


def _compressed_image(cursor: Cursor) -> Split:
    stamp, frame_id = cursor.header()
    named, data = cursor.text(), cursor.bytes()
    form = compressed_form(named, bytes(data[:8]))
    return _spliced(form, stamp, frame_id, cursor.data, cursor.place - len(data), cursor.place)


def _point_cloud(cursor: Cursor) -> Split:
    stamp, frame_id = cursor.header()
    height, width, count = cursor.number("I"), cursor.number("I"), cursor.number("I")
    if count > _MAX_FIELDS:
        raise ValueError(f"a point of {count:,} fields")
    fields = []
    for _ in range(count):
        name, offset, kind, repeat = cursor.text(), cursor.number("I"), cursor.number("B"), cursor.number("I")
        fields.append((name, offset, _POINT_TYPES.get(kind, ""), max(repeat, 1)))
    big_endian, point_step, row_step = bool(cursor.number("B")), cursor.number("I"), cursor.number("I")
    size = len(cursor.bytes())
    plain = (
        not big_endian
        and all(kind for _, _, kind, _ in fields)
        and max(r for *_, r in fields or [("", 0, "", 1)]) < 4096
    )
    tight = point_step > 0 and row_step == width * point_step and size == height * row_step
    form = cloud_form(fields, point_step, size) if plain and tight else Form("lidar", "pointcloud")
    return _spliced(form, stamp, frame_id, cursor.data, cursor.place - size, cursor.place)


def _records_at_the_end(form: Form, strings: int) -> Callable[[Cursor], Split]:
    """A header, `strings` more strings, then float64 fields only: the payload is the rest of the message."""

    def split(cursor: Cursor) -> Split:
        stamp, frame_id = cursor.header()
        for _ in range(strings):
            cursor.text()
        cursor.align(8)
        size = 0 if form.dtype is None else form.dtype.itemsize
        if cursor.place + size > len(cursor.data):
            raise ValueError(f"{len(cursor.data) - cursor.place} bytes left where {size} are needed")
        return _spliced(form, stamp, frame_id, cursor.data, cursor.place, cursor.place + size)

    return split


def _fix(cursor: Cursor) -> Split:
    stamp, frame_id = cursor.header()
    row = np.zeros(1, FIX_DTYPE)
    row["status"], row["service"] = cursor.number("b"), cursor.number("H")
    for name in ("latitude", "longitude", "altitude"):
        row[name] = cursor.number("d")
    row["position_covariance"] = [cursor.number("d") for _ in range(9)]
    row["position_covariance_type"] = cursor.number("B")
    return Split(FIX, stamp, row.tobytes(), SHELL, 0, bytes(cursor.data), frame_id)


_KNOWN: dict[str, Callable[[Cursor], Split]] = {
    "sensor_msgs/Image": _image,
    "sensor_msgs/CompressedImage": _compressed_image,
    "sensor_msgs/PointCloud2": _point_cloud,
    "sensor_msgs/Imu": _records_at_the_end(IMU, 0),
    "nav_msgs/Odometry": _records_at_the_end(ODOMETRY, 1),
    "sensor_msgs/NavSatFix": _fix,
}
