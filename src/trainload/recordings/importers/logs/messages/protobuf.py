"""Foxglove protobuf messages taken apart on the wire: the payload's field is cut out, its tag and length stay.

Field numbers come from the schema in the log (a FileDescriptorSet), so a schema that renumbers is read all the same.
Source: the Protocol Buffers encoding, and the foxglove schemas (CompressedImage, RawImage, PointCloud, LocationFix).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from trainload.errors import UsageError
from trainload.recordings.format.envelopes import SHELL, SPLICE
from trainload.recordings.importers.sensor_types import (
    FIX,
    FIX_DTYPE,
    Form,
    MessageParser,
    ParsedMessage,
    cloud_form,
    compressed_form,
    picture_form,
)
from trainload.recordings.importers.source import Channel

_TIMESTAMP = ".google.protobuf.Timestamp"
_POINT_TYPES = {1: "|u1", 2: "|i1", 3: "<u2", 4: "<i2", 5: "<u4", 6: "<i4", 7: "<f4", 8: "<f8"}
_FIXED = {1: 8, 5: 4}


class _Field(NamedTuple):
    number: int
    wire_type: int
    start: int
    end: int
    varint: int


def protobuf_parser(channel: Channel) -> MessageParser:
    """How messages of this channel come apart; a type that is not known stays whole and gives its `timestamp` field."""
    numbers, stamp_field = _schema_fields(channel)
    known = _KNOWN.get(channel.type_name)
    whole = Form("generic", "protobuf")

    def parse(data: memoryview) -> ParsedMessage:
        found: dict[int, list[_Field]] = {}
        for field in _fields(data, 0, len(data)):
            found.setdefault(field.number, []).append(field)
        message = _Message(data, found, numbers)
        stamp = _stamp(data, found[stamp_field][-1]) if stamp_field in found else 0
        if known is not None:
            return known(message, stamp)
        return ParsedMessage(whole, stamp, data)

    return parse


class _Message:
    """A message's top-level fields by the names of its schema; what is absent is the type's zero."""

    def __init__(self, data: memoryview, found: dict[int, list[_Field]], numbers: dict[str, int]) -> None:
        self.data = data
        self._found = found
        self._numbers = numbers

    def all(self, name: str) -> list[_Field]:
        return self._found.get(self._numbers.get(name, -1), [])

    def fixed(self, name: str, code: str) -> Any:
        fields = self.all(name)
        return struct.unpack_from(f"<{code}", self.data, fields[-1].start)[0] if fields else 0

    def varint(self, name: str) -> int:
        fields = self.all(name)
        return fields[-1].varint if fields else 0

    def text(self, name: str) -> str:
        fields = self.all(name)
        return bytes(self.data[fields[-1].start : fields[-1].end]).decode("utf-8", "replace") if fields else ""

    def cut(self, form: Form, stamp: int) -> ParsedMessage:
        """The message with its one `data` field as payload."""
        [field] = self.all("data")
        shell = bytes(self.data[: field.start]) + bytes(self.data[field.end :])
        payload = self.data[field.start : field.end]
        return ParsedMessage(form, stamp, payload, SPLICE, field.start, shell, self.text("frame_id"))


def _compressed(message: _Message, stamp: int) -> ParsedMessage:
    [field] = message.all("data")
    head = bytes(message.data[field.start : min(field.end, field.start + 8)])
    return message.cut(compressed_form(message.text("format"), head), stamp)


def _raw(message: _Message, stamp: int) -> ParsedMessage:
    [field] = message.all("data")
    form = picture_form(
        message.fixed("height", "I"),
        message.fixed("width", "I"),
        message.text("encoding"),
        message.fixed("step", "I"),
        big_endian=False,
        size_bytes=field.end - field.start,
    )
    return message.cut(form, stamp)


def _cloud(message: _Message, stamp: int) -> ParsedMessage:
    fields = []
    for part in message.all("fields"):  # foxglove.PackedElementField: name = 1, offset = 2, type = 3
        inner = {field.number: field for field in _fields(message.data, part.start, part.end)}
        name = bytes(message.data[inner[1].start : inner[1].end]).decode("utf-8", "replace") if 1 in inner else ""
        offset = struct.unpack_from("<I", message.data, inner[2].start)[0] if 2 in inner else 0
        fields.append((name, offset, _POINT_TYPES.get(inner[3].varint if 3 in inner else 0, ""), 1))
    stride = message.fixed("point_stride", "I")
    [data] = message.all("data")
    return message.cut(cloud_form(fields, stride, data.end - data.start), stamp)


def _fix(message: _Message, stamp: int) -> ParsedMessage:
    row = np.zeros(1, FIX_DTYPE)
    for name in ("latitude", "longitude", "altitude"):
        row[name] = message.fixed(name, "d")
    packed = b"".join(bytes(message.data[field.start : field.end]) for field in message.all("position_covariance"))
    if len(packed) == 72:
        row["position_covariance"] = np.frombuffer(packed, "<f8")
    row["position_covariance_type"] = message.varint("position_covariance_type")
    return ParsedMessage(FIX, stamp, row.tobytes(), SHELL, 0, bytes(message.data), message.text("frame_id"))


_KNOWN: dict[str, Callable[[_Message, int], ParsedMessage]] = {
    "foxglove.CompressedImage": _compressed,
    "foxglove.CompressedVideo": _compressed,
    "foxglove.RawImage": _raw,
    "foxglove.PointCloud": _cloud,
    "foxglove.LocationFix": _fix,
}


def _schema_fields(channel: Channel) -> tuple[dict[str, int], int]:
    """Field numbers by name, and the number of the `timestamp` field (0: none), from the log's FileDescriptorSet."""
    try:
        descriptor = import_module("google.protobuf.descriptor_pb2")
    except ImportError as error:
        raise UsageError("protobuf logs need the protobuf package: pip install 'trainload[robotics]'") from error
    try:
        files = descriptor.FileDescriptorSet.FromString(channel.schema).file
    except Exception as error:  # protobuf's DecodeError is not a ValueError
        raise ValueError(f"the schema of {channel.topic} is no FileDescriptorSet: {error}") from error
    for file in files:
        for message in file.message_type:
            if ".".join(filter(None, (file.package, message.name))) == channel.type_name:
                numbers = {field.name: field.number for field in message.field}
                stamps = [
                    f.number for f in message.field if f.type_name == _TIMESTAMP and f.name in ("timestamp", "stamp")
                ]
                return numbers, stamps[0] if stamps else 0
    return {}, 0


def _stamp(data: memoryview, field: _Field) -> int:
    inner = {part.number: part.varint for part in _fields(data, field.start, field.end)}
    seconds, nanoseconds = inner.get(1, 0), inner.get(2, 0)
    return seconds * 1_000_000_000 + nanoseconds if seconds < 1 << 33 and nanoseconds < 1_000_000_000 else 0


def _fields(data: memoryview, place: int, end: int) -> Iterator[_Field]:
    while place < end:
        tag, place = _varint(data, place, end)
        number, wire_type, value = tag >> 3, tag & 7, 0
        start = place
        if wire_type == 0:
            value, place = _varint(data, place, end)
        elif wire_type == 2:
            size, start = _varint(data, place, end)
            place = start + size
        elif wire_type in _FIXED:
            place += _FIXED[wire_type]
        else:
            raise ValueError(f"wire type {wire_type} at byte {start}")
        if place > end:
            raise ValueError(f"field {number} ends at byte {place:,}, after the message's {end:,}")
        yield _Field(number, wire_type, start, place, value)


def _varint(data: memoryview, place: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= end:
            break
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError(f"a number that does not end at byte {place}")
