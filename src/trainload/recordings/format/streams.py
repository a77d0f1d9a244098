"""The stream table (section STRM): what each stream of a recording carries, as JSON and as values.

The law is docs/spec/hyperframe.md, section 7. Element types are limited to plain numbers, so that no name from a file
can make numpy build objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainload.formats.json_values import parse_json
from trainload.recordings.format import rules
from trainload.recordings.format.field_rules import FieldRules, rules_from_json, rules_to_json
from trainload.recordings.format.layouts import MAX_ROW_BYTES, Layout

CLOCKS = ("hardware", "host")
TIME_FIELD = "timestamp_ns"  # the first field of every packed sample
MAX_ELEMENT_BYTES = 1 << 16
_TYPE = re.compile(r"[<|](?:[iu][1248]|f[248]|b1|[SV][1-9]\d{0,4})")
_ENCODED = (
    "jpeg",
    "jpg",
    "png",
    "webp",
    "h264",
    "h265",
    "hevc",
    "av1",
    "vp9",
    "mjpeg",
    "theora",
    "draco",
    "compresseddepth",
    "npz",
    "capnp.bz2",
)


def is_compressed(encoding: str) -> bool:
    """True for an encoding that a byte codec cannot shrink (JPEG, video, ...)."""
    return encoding.lower() in _ENCODED


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """One stream of a recording.

    kind: camera, lidar, imu, radar, event, ... encoding: jpeg, raw, ros2msg, ... dtype: one element of the payload, or
    None for opaque bytes. shape: the payload's array shape, -1 where it follows from the size; () for one element per
    item. clock: what stamped the frames, "hardware" or "host". frame_duration_ns: exposure or sweep of every frame
    that has no duration of its own. codec: what the writer was asked for; each index entry says what was done.
    shuffle: element size of the byte shuffle, 0 for none. packed: many samples in one payload, each led by its u64
    TIME_FIELD (part of dtype). calibration: intrinsics, extrinsics, frame of reference, as given. fields: what was
    declared of the fields, for values between two samples (field_rules.py). layout: where dtype is None, how the
    payload is an array all the same (layouts.py).
    """

    id: int
    name: str
    kind: str = "generic"
    encoding: str = "raw"
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = (-1,)
    rate_hz: float | None = None
    clock: str = "hardware"
    frame_duration_ns: int | None = None
    codec: str = "none"
    shuffle: int = 0
    packed: bool = False
    calibration: Mapping[str, Any] = field(default_factory=dict)
    fields: FieldRules = field(default_factory=dict)
    layout: Layout | None = None

    @property
    def is_opaque(self) -> bool:
        """True where the payload is no array of numbers by its own type: a picture to decode, a message, bytes."""
        return self.dtype is None and self.layout is None

    @property
    def already_compressed(self) -> bool:
        """True for an encoding that a byte codec cannot shrink (JPEG, video, ...)."""
        return is_compressed(self.encoding)

    def to_json(self) -> dict[str, Any]:
        """The stream as the JSON object of section STRM."""
        declared: dict[str, Any] = {"fields": rules_to_json(self.fields)} if self.fields else {}
        if self.layout is not None:
            declared["layout"] = _layout_to_json(self.layout)
        return {
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "encoding": self.encoding,
            "dtype": None if self.dtype is None else dtype_to_json(self.dtype),
            "shape": list(self.shape),
            "rate_hz": self.rate_hz,
            "clock": self.clock,
            "frame_duration_ns": self.frame_duration_ns,
            "codec": self.codec,
            "shuffle": self.shuffle,
            "packed": self.packed,
            "calibration": dict(self.calibration),
            **declared,
        }

    @staticmethod
    def from_json(value: Any) -> StreamInfo:
        """Parse one object of section STRM. Raises ValueError, saying which key is wrong; unknown keys are ignored."""
        item = _Object(value)
        clock = item.get("clock", str, "host")
        if clock not in CLOCKS:
            raise ValueError(f"clock must be one of {CLOCKS}, not {clock!r}")
        stored = value.get("dtype")
        dtype = None if stored is None else dtype_from_json(stored)
        packed = item.get("packed", bool, False)
        if packed and not _has_times(dtype):
            raise ValueError(f"samples of a packed stream begin with {TIME_FIELD}, of type <u8, not {stored!r}"[:200])
        return StreamInfo(
            id=item.integer("id", 0xFFFF),
            name=item.get("name", str),
            kind=item.get("kind", str, "generic"),
            encoding=item.get("encoding", str, "raw"),
            dtype=dtype,
            shape=_shape(value.get("shape", [-1])),
            rate_hz=item.number("rate_hz"),
            clock=clock,
            frame_duration_ns=item.integer("frame_duration_ns", (1 << 32) - 1, optional=True),
            codec=item.get("codec", str, "none"),
            shuffle=item.integer("shuffle", MAX_ELEMENT_BYTES, optional=True) or 0,
            packed=packed,
            calibration=item.get("calibration", dict, {}),
            fields=rules_from_json(value.get("fields", [])),
            layout=_layout_from_json(value.get("layout")),
        )


def _has_times(dtype: np.dtype[Any] | None) -> bool:
    """True for the element type of a packed stream: TIME_FIELD, u64, then at least one field more."""
    names = dtype.names or () if dtype is not None else ()
    return dtype is not None and len(names) > 1 and names[0] == TIME_FIELD and dtype[0] == np.dtype("<u8")


class _Object:
    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise ValueError("a stream must be an object")
        self._value = value

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        found = self._value.get(key, default)
        if not isinstance(found, kind):
            raise ValueError(f"{key} must be of type {kind.__name__}, not {found!r}")
        return found

    def integer(self, key: str, most: int, *, optional: bool = False) -> Any:
        found = self._value.get(key)
        if found is None and optional:
            return None
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= most:
            raise ValueError(f"{key} must be a whole number from 0 to {most}, not {found!r}")
        return found

    def number(self, key: str) -> float | None:
        found = self._value.get(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise ValueError(f"{key} must be a number, not {found!r}")
        return float(found)


def _layout_to_json(layout: Layout) -> dict[str, Any]:
    return {
        "dtype": dtype_to_json(layout.dtype),
        "shape": list(layout.shape),
        "big_endian": layout.big_endian,
        "row_bytes": layout.row_bytes,
    }


def _layout_from_json(value: Any) -> Layout | None:
    if value is None:
        return None
    item = _Object(value)
    layout = Layout(
        dtype_from_json(value.get("dtype")),
        _shape(value.get("shape")),
        item.get("big_endian", bool, False),
        item.integer("row_bytes", MAX_ROW_BYTES, optional=True) or 0,
    )
    layout.check()
    return layout


def _shape(value: Any) -> tuple[int, ...]:
    good = isinstance(value, list) and len(value) <= 8 and sum(n == -1 for n in value) <= 1
    if not good or not all(isinstance(n, int) and not isinstance(n, bool) and -1 <= n < 1 << 32 for n in value):
        raise ValueError(f"shape must be a list of up to 8 sizes, at most one of them -1, not {value!r}")
    return tuple(value)


def dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """`"<f4"` for a plain type, `[["x", "<f4"], ["cov", "<f8", [3, 3]]]` for fields without gaps.

    Raises ValueError for what the format does not carry: objects, dates, big-endian, nested or padded fields.
    """
    if dtype.names is None:
        if not _TYPE.fullmatch(dtype.str):
            raise ValueError(f"the format carries little-endian numbers and bytes, not {dtype.str!r}")
        return dtype.str
    result: list[list[Any]] = []
    for name in dtype.names:
        part = dtype[name]
        base, shape = part.subdtype if part.subdtype is not None else (part, ())
        if base.names is not None:
            raise ValueError(f"field {name!r}: fields inside fields are not carried")
        result.append([name, dtype_to_json(base), *([list(shape)] if shape else [])])
    if dtype_from_json(result) != dtype:
        raise ValueError("fields must follow one another without gaps, in order")
    return result


def dtype_from_json(value: Any) -> np.dtype[Any]:
    """The numpy type that `dtype_to_json` wrote. Raises ValueError for anything else."""
    if isinstance(value, str):
        if not _TYPE.fullmatch(value):
            raise ValueError(f"dtype must be a little-endian number or bytes, not {value!r}")
        dtype = np.dtype(value)
    elif isinstance(value, list) and 0 < len(value) <= 1024:
        dtype = np.dtype([_field(item) for item in value])
    else:
        raise ValueError(f"dtype must be a type or a list of fields, not {value!r}")
    if not 0 < dtype.itemsize <= MAX_ELEMENT_BYTES:
        raise ValueError(f"an element of {dtype.itemsize} bytes, where 1 to {MAX_ELEMENT_BYTES} are carried")
    return dtype


def _field(item: Any) -> tuple[str, str] | tuple[str, str, tuple[int, ...]]:
    good = isinstance(item, list) and len(item) in (2, 3) and all(isinstance(part, str) for part in item[:2])
    if not good or not _TYPE.fullmatch(item[1]) or not item[0]:
        raise ValueError(f"a field is [name, type] or [name, type, shape], not {item!r}")
    if len(item) == 2:
        return item[0], item[1]
    shape = item[2]
    if not isinstance(shape, list) or len(shape) > 4 or not all(isinstance(n, int) and 0 < n < 4096 for n in shape):
        raise ValueError(f"field {item[0]!r}: shape must be up to 4 sizes from 1 to 4095, not {shape!r}")
    if int(np.prod(shape, dtype=object)) > MAX_ELEMENT_BYTES:
        raise ValueError(f"field {item[0]!r} is larger than an element may be")
    return item[0], item[1], tuple(shape)


def packed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The element type of a packed stream: TIME_FIELD (u64), then the sample's own fields ("value" for a plain one)."""
    inner: list[Any] = [["value", dtype_to_json(dtype)]] if dtype.names is None else dtype_to_json(dtype)
    return dtype_from_json([[TIME_FIELD, "<u8"], *inner])


def streams_to_bytes(streams: Iterable[StreamInfo]) -> bytes:
    """The body of section STRM: a JSON array, by stream id."""
    ordered = sorted(streams, key=lambda stream: stream.id)
    return json.dumps([stream.to_json() for stream in ordered], separators=(",", ":"), allow_nan=False).encode()


def streams_from_bytes(body: bytes, *, path: str = "") -> list[StreamInfo]:
    """Parse the body of section STRM. Raises FormatError for a broken table, a repeated id or a repeated name."""
    try:
        items = parse_json(body)
        if not isinstance(items, Sequence) or isinstance(items, str):
            raise ValueError("the table must be an array")
        streams = [StreamInfo.from_json(item) for item in items]
        for what in ("id", "name"):
            if len({getattr(stream, what) for stream in streams}) != len(streams):
                raise ValueError(f"two streams have the same {what}")
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise rules.STREAMS.broken(
            field="section STRM",
            offset=None,
            found=str(error),
            expected="a JSON array of streams",
            path=path,
        ) from error
    return streams
