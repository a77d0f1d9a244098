"""ROS messages taken apart without a message library: plain CDR in both byte orders (ROS 2), and what ROS 1 writes.

Only where a payload begins and ends is read, so a point cloud costs what its header costs. Source: OMG DDS-XTypes 1.3,
7.4 (items are aligned to their size, in XCDR2 to 4 at most, counted from after the 4-byte encapsulation) and 7.6.3.1.2
(encapsulation identifiers; the numbers of XTypes 1.2 are in use too), and the ROS 1 wire format.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from trainload.recordings.format.envelopes import SHELL, SPLICE
from trainload.recordings.importers.sensor_types import (
    FIX,
    FIX_DTYPE,
    IMU,
    ODOMETRY,
    Form,
    MessageParser,
    ParsedMessage,
    Rows,
    cloud_form,
    compressed_form,
)
from trainload.recordings.importers.sensor_types import picture_form as raw_picture_form
from trainload.recordings.importers.source import Channel

_PLAIN = {  # encapsulation to byte order and widest alignment
    b"\x00\x00": (">", 8),
    b"\x00\x01": ("<", 8),
    b"\x00\x06": (">", 4),
    b"\x00\x07": ("<", 4),
    b"\x00\x10": (">", 4),
    b"\x00\x11": ("<", 4),
}
_MARKED = {  # members or structures carry lengths and numbers of their own, which a list of fields does not tell
    b"\x00\x02": "pl_cdr",
    b"\x00\x03": "pl_cdr",
    b"\x00\x08": "d_cdr2",
    b"\x00\x09": "d_cdr2",
    b"\x00\x0a": "pl_cdr2",
    b"\x00\x0b": "pl_cdr2",
    b"\x00\x12": "pl_cdr2",
    b"\x00\x13": "pl_cdr2",
    b"\x00\x14": "d_cdr2",
    b"\x00\x15": "d_cdr2",
}
UNDECODED = frozenset(_MARKED.values())
"""Encodings of streams whose messages are whole, but were not looked into."""
_LAYOUTS = {order: {code: struct.Struct(order + code) for code in "bBHiId"} for order in "<>"}
_POINT_TYPES = {1: "|i1", 2: "|u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 8: "<f8"}
_MAX_FIELDS = 256
_HEADER_FIRST = re.compile(r"^(?:std_msgs/(?:msg/)?)?Header\s+\w+")
_CONSTANT_OR_EMPTY = re.compile(r"^\s*(?:#.*)?$|^\s*[\w/]+\s+\w+\s*=")

_IDL_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|@\w+\s*(?:\((?:[^()\"]|\"(?:\\.|[^\"\\])*\")*\))?", re.DOTALL)


class Cursor:
    """Reads the fields of a message in order, bounded by its size. widest: of alignment, 4 in XCDR2, else 8."""

    def __init__(self, data: memoryview, *, ros1: bool, order: str = "<", widest: int = 8) -> None:
        self.data = data
        self.ros1 = ros1
        self.order = order
        self._layouts = _LAYOUTS[order]
        self.widest = widest
        self.origin = 0 if ros1 else 4
        self.place = self.origin

    def align(self, size: int) -> None:
        """Skip CDR's padding before an item of that size; ROS 1 has none."""
        if not self.ros1:
            self.place += -(self.place - self.origin) % (size if size < self.widest else self.widest)

    def number(self, code: str) -> int:
        """One number, `code` as in `struct`."""
        layout = self._layouts[code]
        self.align(layout.size)
        value: int = layout.unpack_from(self.data, self.place)[0]
        self.place += layout.size
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

    def finish(self, more: int = 0) -> None:
        """Raises ValueError where XCDR2 has more than padding behind the last `more` bytes: structures in it may carry
        lengths that a list of fields does not tell."""
        left = len(self.data) - self.place - more
        if self.widest == 4 and not 0 <= left < 4:
            raise ValueError(f"{left} bytes follow the last field")


def ros_parser(channel: Channel) -> MessageParser:
    """How messages of this channel come apart: known sensor types into payload and shell, others stay whole.

    A type that is not known but begins with a Header gives its stamp.
    """
    ros1 = channel.encoding == "ros1"
    whole = Form("generic", channel.encoding)
    known = _KNOWN.get(channel.type_name.replace("/msg/", "/"))
    headed = known is not None or _begins_with_header(channel)

    def parse(data: memoryview) -> ParsedMessage:
        order, widest = ("<", 8) if ros1 else _PLAIN.get(bytes(data[:2]), ("", 0))
        if not order:
            marked = _MARKED.get(bytes(data[:2]))
            return ParsedMessage(whole if marked is None else Form("generic", marked), 0, data)
        cursor = Cursor(data, ros1=ros1, order=order, widest=widest)
        if known is not None:
            return known(cursor)
        return ParsedMessage(whole, cursor.header()[0] if headed else 0, data)

    return parse


def _begins_with_header(channel: Channel) -> bool:
    text = channel.schema.decode("utf-8", "replace")
    if channel.schema_encoding == "ros2idl":
        name = re.escape(channel.type_name.rpartition("/")[2])
        return re.search(rf"\bstruct\s+{name}\s*\{{\s*(?:\w+::)*Header\s", _IDL_ASIDE.sub(" ", text)) is not None
    if channel.schema_encoding not in ("ros2msg", "ros1msg"):
        return False
    for line in text.splitlines():
        if not _CONSTANT_OR_EMPTY.match(line):
            return _HEADER_FIRST.match(line.strip()) is not None
    return False


def _spliced(form: Form, stamp: int, frame_id: str, whole: memoryview, start: int, end: int) -> ParsedMessage:
    shell = bytes(whole[:start]) + bytes(whole[end:])
    return ParsedMessage(form, stamp, whole[start:end], SPLICE, start, shell, frame_id)


def _image(cursor: Cursor) -> ParsedMessage:
    stamp, frame_id = cursor.header()
    height, width, encoding = cursor.number("I"), cursor.number("I"), cursor.text()
    big_endian, step = bool(cursor.number("B")), cursor.number("I")
    size = len(cursor.bytes())
    cursor.finish()
    form = raw_picture_form(height, width, encoding, step, big_endian=big_endian, size_bytes=size)
    return _spliced(form, stamp, frame_id, cursor.data, cursor.place - size, cursor.place)


def _compressed_image(cursor: Cursor) -> ParsedMessage:
    stamp, frame_id = cursor.header()
    named, data = cursor.text(), cursor.bytes()
    cursor.finish()
    form = compressed_form(named, bytes(data[:8]))
    return _spliced(form, stamp, frame_id, cursor.data, cursor.place - len(data), cursor.place)


def _point_cloud(cursor: Cursor) -> ParsedMessage:
    stamp, frame_id = cursor.header()
    height, width, fields = cursor.number("I"), cursor.number("I"), _point_fields(cursor)
    big_endian, point_step, row_step = bool(cursor.number("B")), cursor.number("I"), cursor.number("I")
    size = len(cursor.bytes())
    cursor.finish(more=1)  # is_dense
    form = cloud_form(fields, point_step, size, rows=Rows(height, width, row_step), big_endian=big_endian)
    return _spliced(form, stamp, frame_id, cursor.data, cursor.place - size, cursor.place)


def _point_fields(cursor: Cursor) -> list[tuple[str, int, str, int]]:
    """PointField[]. XCDR2 puts the size of such a list before it; writers that leave it out are told apart by it."""
    if cursor.widest == 4:
        size, start = cursor.number("I"), cursor.place
        with suppress(ValueError, struct.error):
            fields = _plain_point_fields(cursor)
            if cursor.place - start == size:
                return fields
        cursor.place = start - 4
    return _plain_point_fields(cursor)


def _plain_point_fields(cursor: Cursor) -> list[tuple[str, int, str, int]]:
    count = cursor.number("I")
    if count > _MAX_FIELDS:
        raise ValueError(f"a point of {count:,} fields")
    fields = []
    for _ in range(count):
        name, offset, kind, repeat = cursor.text(), cursor.number("I"), cursor.number("B"), cursor.number("I")
        fields.append((name, offset, _POINT_TYPES.get(kind, ""), max(repeat, 1)))
    return fields


def _records_at_the_end(form: Form, strings: int) -> Callable[[Cursor], ParsedMessage]:
    """A header, `strings` more strings, then float64 fields only: the payload is the rest of the message."""

    def parse(cursor: Cursor) -> ParsedMessage:
        stamp, frame_id = cursor.header()
        for _ in range(strings):
            cursor.text()
        cursor.align(8)
        size = 0 if form.dtype is None else form.dtype.itemsize
        start, cursor.place = cursor.place, cursor.place + size
        if cursor.place > len(cursor.data):
            raise ValueError(f"{len(cursor.data) - start} bytes left where {size} are needed")
        cursor.finish()
        if cursor.order == "<":
            return _spliced(form, stamp, frame_id, cursor.data, start, cursor.place)
        numbers = np.frombuffer(cursor.data[start : cursor.place], ">f8").astype("<f8")
        return ParsedMessage(form, stamp, numbers.tobytes(), SHELL, 0, bytes(cursor.data), frame_id)

    return parse


def _fix(cursor: Cursor) -> ParsedMessage:
    stamp, frame_id = cursor.header()
    row = np.zeros(1, FIX_DTYPE)
    row["status"], row["service"] = cursor.number("b"), cursor.number("H")
    for name in ("latitude", "longitude", "altitude"):
        row[name] = cursor.number("d")
    row["position_covariance"] = [cursor.number("d") for _ in range(9)]
    row["position_covariance_type"] = cursor.number("B")
    cursor.finish()
    return ParsedMessage(FIX, stamp, row.tobytes(), SHELL, 0, bytes(cursor.data), frame_id)


_KNOWN: dict[str, Callable[[Cursor], ParsedMessage]] = {
    "sensor_msgs/Image": _image,
    "sensor_msgs/CompressedImage": _compressed_image,
    "sensor_msgs/PointCloud2": _point_cloud,
    "sensor_msgs/Imu": _records_at_the_end(IMU, 0),
    "nav_msgs/Odometry": _records_at_the_end(ODOMETRY, 1),
    "sensor_msgs/NavSatFix": _fix,
}
