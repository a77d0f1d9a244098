"""The sections of HFRM that are one array or one JSON object: RECV, DURA, DROP, META.

The law is docs/spec/hyperframe.md, section 8. The same bodies stand in the section list after the index (one value per
index entry, in the order of the index) and in a window record (one per entry of that record).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import MAX_TIMESTAMP_NS

TAG_STREAMS = b"STRM"
TAG_WINDOWS = b"WNDW"
TAG_RECEIVE_TIMES = b"RECV"  # u64 ns per index entry; 0 where none was given
TAG_DURATIONS = b"DURA"  # u32 ns per index entry; NO_DURATION where none was given
TAG_META = b"META"
TAG_DROPS = b"DROP"
KNOWN_TAGS = frozenset(
    (TAG_STREAMS, TAG_WINDOWS, TAG_RECEIVE_TIMES, TAG_DURATIONS, TAG_META, TAG_DROPS)
)  # others are skipped, and kept by tools that rewrite a file

NO_DURATION = 0


@dataclass(frozen=True, slots=True)
class Drop:
    """Frames of one stream that were lost before they could be written, for one reason."""

    stream_id: int
    reason: str
    frames: int
    bytes: int


def receive_times_from_bytes(body: bytes, *, entries: int, path: str = "") -> NDArray[np.uint64]:
    """uint64[entries]: nanoseconds at which each frame was received, 0 where unknown. FormatError."""
    times: NDArray[np.uint64] = _array(body, np.dtype("<u8"), entries, "section RECV", path)
    if entries and times.max() > MAX_TIMESTAMP_NS:
        raise rules.RECEIVE_TIME.broken(
            field="section RECV",
            offset=None,
            found=f"{times.max():,}",
            expected=f"at most {MAX_TIMESTAMP_NS:,}",
            path=path,
        )
    return times


def durations_from_bytes(body: bytes, *, entries: int, path: str = "") -> NDArray[np.uint32]:
    """uint32[entries]: nanoseconds that each frame lasted, NO_DURATION where the stream's own holds. FormatError."""
    return _array(body, np.dtype("<u4"), entries, "section DURA", path)


def _array(body: bytes, dtype: np.dtype[Any], entries: int, field: str, path: str) -> NDArray[Any]:
    size = entries * dtype.itemsize
    if len(body) != size:
        raise rules.SIDE_VALUES.broken(
            field=field,
            offset=None,
            found=f"{len(body):,} bytes",
            expected=f"{size:,} bytes",
            path=path,
        )
    return np.frombuffer(body, dtype)


def meta_to_bytes(meta: dict[str, Any]) -> bytes:
    """The body of section META: one JSON object, free in content."""
    return json.dumps(meta, separators=(",", ":")).encode()


def meta_from_bytes(body: bytes, *, path: str = "") -> dict[str, Any]:
    """The object of section META. Raises FormatError."""
    value = _json(body, "section META", path)
    if not isinstance(value, dict):
        raise rules.META.broken(
            field="section META",
            offset=None,
            found=type(value).__name__,
            expected="an object",
            path=path,
        )
    return value


def drops_to_bytes(drops: list[Drop]) -> bytes:
    """The body of section DROP: a JSON array of {stream, reason, frames, bytes}."""
    items = [{"stream": d.stream_id, "reason": d.reason, "frames": d.frames, "bytes": d.bytes} for d in drops]
    return json.dumps(items, separators=(",", ":")).encode()


def drops_from_bytes(body: bytes, *, path: str = "") -> list[Drop]:
    """What section DROP says. Raises FormatError."""
    drops: list[Drop] = []
    items = _json(body, "section DROP", path)
    for item in items if isinstance(items, list) else [items]:
        values = item if isinstance(item, dict) else {}
        numbers = [n for key in ("stream", "frames", "bytes") if type(n := values.get(key)) is int and 0 <= n < 1 << 63]
        reason = values.get("reason")
        if len(numbers) < 3 or not isinstance(reason, str):
            raise rules.DROPS.broken(
                field="section DROP",
                offset=None,
                found=repr(item)[:80],
                expected="objects with stream, reason, frames and bytes",
                path=path,
            )
        drops.append(Drop(numbers[0], reason, numbers[1], numbers[2]))
    return drops


def _json(body: bytes, field: str, path: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise rules.JSON.broken(field=field, offset=None, found=str(error), expected="JSON", path=path) from error
