"""Foxglove JSON messages taken apart: base64 data becomes the payload, the rest of the text stays as it was written."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from trainload.recordings.format.envelopes import SHELL, SPLICE_BASE64
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

_POINT_TYPES = {1: "|u1", 2: "|i1", 3: "<u2", 4: "<i2", 5: "<u4", 6: "<i4", 7: "<f4", 8: "<f8"}
_POINT_NAMES = dict(zip(("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "FLOAT32", "FLOAT64"), range(1, 9)))
_WHOLE = Form("generic", "json")


def json_parser(channel: Channel) -> MessageParser:
    """How messages of this channel come apart; a type that is not known stays whole and gives its stamp."""
    known = _KNOWN.get(channel.type_name)

    def parse(data: memoryview) -> ParsedMessage:
        text = bytes(data)
        message = json.loads(text)
        if not isinstance(message, dict):
            return ParsedMessage(_WHOLE, 0, data)
        stamp = _stamp(message)
        return ParsedMessage(_WHOLE, stamp, data) if known is None else known(message, stamp, text)

    return parse


def _compressed(message: dict[str, Any], stamp: int, text: bytes) -> ParsedMessage:
    payload = _payload(message)
    return _cut(compressed_form(str(message.get("format", "")), payload[:8]), stamp, payload, message, text)


def _raw(message: dict[str, Any], stamp: int, text: bytes) -> ParsedMessage:
    payload = _payload(message)
    height, width, step = (int(message.get(key, 0)) for key in ("height", "width", "step"))
    encoding = str(message.get("encoding", ""))
    form = picture_form(height, width, encoding, step, big_endian=False, size_bytes=len(payload))
    return _cut(form, stamp, payload, message, text)


def _cloud(message: dict[str, Any], stamp: int, text: bytes) -> ParsedMessage:
    payload, stride = _payload(message), int(message.get("point_stride", 0))
    fields = []
    for part in message.get("fields", []):
        kind = part.get("type", 0)
        fields.append(
            (
                str(part.get("name", "")),
                int(part.get("offset", 0)),
                _POINT_TYPES.get(_POINT_NAMES.get(kind, kind), ""),
                1,
            )
        )
    return _cut(cloud_form(fields, stride, len(payload)), stamp, payload, message, text)


def _fix(message: dict[str, Any], stamp: int, text: bytes) -> ParsedMessage:
    row = np.zeros(1, FIX_DTYPE)
    for name in ("latitude", "longitude", "altitude"):
        row[name] = float(message.get(name, 0))
    covariance = message.get("position_covariance", [])
    if len(covariance) == 9:
        row["position_covariance"] = covariance
    return ParsedMessage(FIX, stamp, row.tobytes(), SHELL, 0, text, str(message.get("frame_id", "")))


_KNOWN: dict[str, Callable[[dict[str, Any], int, bytes], ParsedMessage]] = {
    "foxglove.CompressedImage": _compressed,
    "foxglove.CompressedVideo": _compressed,
    "foxglove.RawImage": _raw,
    "foxglove.PointCloud": _cloud,
    "foxglove.LocationFix": _fix,
}


def _payload(message: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(message["data"], validate=True)
    except (KeyError, TypeError, binascii.Error) as error:
        raise ValueError(f"data is no base64: {error}") from error


def _cut(form: Form, stamp: int, payload: bytes, message: dict[str, Any], text: bytes) -> ParsedMessage:
    """Splice the base64 out where the text has it once and as we would write it; else keep the whole text."""
    frame_id, coded = str(message.get("frame_id", "")), base64.b64encode(payload)
    if len(coded) and coded == str(message["data"]).encode() and text.count(coded) == 1:
        place = text.index(coded)
        shell = text[:place] + text[place + len(coded) :]
        return ParsedMessage(form, stamp, payload, SPLICE_BASE64, place, shell, frame_id)
    return ParsedMessage(form, stamp, payload, SHELL, 0, text, frame_id)


def _stamp(message: dict[str, Any]) -> int:
    """The acquisition time of `timestamp` or `header.stamp`, 0 where there is none."""
    header = message.get("header")
    stamp = message.get("timestamp") or (header.get("stamp") if isinstance(header, dict) else None)
    if not isinstance(stamp, dict):
        return 0
    seconds = stamp.get("sec", stamp.get("secs", 0))
    nanoseconds = stamp.get("nsec", stamp.get("nanosec", stamp.get("nsecs", 0)))
    if type(seconds) is int and type(nanoseconds) is int and 0 <= seconds < 1 << 33 and 0 <= nanoseconds < 10**9:
        return seconds * 1_000_000_000 + nanoseconds
    return 0
