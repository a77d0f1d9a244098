"""A frame on its way into the file: checked when it comes, packed with its like when its window closes."""

from __future__ import annotations

import operator
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from trainload.errors import UsageError
from trainload.recordings.format.hyperframe import KEY_FRAME, LATE, MAX_FRAME_BYTES, MAX_TIMESTAMP_NS, PACKED
from trainload.recordings.writing.compressor import Encoding
from trainload.recordings.writing.part import StoredFrame
from trainload.recordings.writing.streams import OpenStream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Payload = Buffer | NDArray[Any] | np.generic  # numpy's types are Buffers from Python 3.12 on

_MAX_U32 = (1 << 32) - 1
_TIME = struct.Struct("<Q")


class PendingFrame(NamedTuple):
    """One frame, or one sample of a packed stream, that was checked and waits for its window to close."""

    stream: OpenStream
    timestamp_ns: int
    payload: bytes
    flags: int
    stream_index: int
    receive_ns: int
    duration_ns: int


def pending_frame(
    stream: OpenStream,
    timestamp_ns: int,
    payload: Payload,
    key_frame: bool,
    receive_ns: int,
    duration_ns: int,
    stream_index: int | None,
) -> PendingFrame:
    """Check one frame, copy its payload unless it is bytes, count the stream's index on. Raises UsageError."""
    data = payload if type(payload) is bytes else _copied(payload)
    number = stream_index
    if number is None:
        number = stream.next_sample & _MAX_U32 if stream.sample_bytes else stream.next_index
    if not (
        type(timestamp_ns) is type(number) is type(receive_ns) is type(duration_ns) is int
        and 0 <= timestamp_ns <= MAX_TIMESTAMP_NS
        and 0 <= receive_ns <= MAX_TIMESTAMP_NS
        and 0 <= duration_ns <= _MAX_U32
        and 0 <= number <= _MAX_U32
        and len(data) <= MAX_FRAME_BYTES
        and (not stream.sample_bytes or len(data) == stream.sample_bytes)
    ):
        _check_payload(stream, len(data))
        timestamp_ns, number, receive_ns, duration_ns = _whole_numbers(timestamp_ns, number, receive_ns, duration_ns)
    if stream_index is not None:
        stream.note_sensor_index(number)
    if stream.sample_bytes:
        stream.next_sample = number + 1
    else:
        stream.next_index = number + 1
    flags = stream.flags | KEY_FRAME if key_frame else stream.flags
    return PendingFrame(stream, timestamp_ns, data, flags, number, receive_ns, duration_ns)


_NUMBERS = (
    ("timestamp_ns", MAX_TIMESTAMP_NS),
    ("stream_index", _MAX_U32),
    ("receive_ns", MAX_TIMESTAMP_NS),
    ("duration_ns", _MAX_U32),
)


def _whole_numbers(*numbers: Any) -> tuple[int, ...]:
    """The numbers as ints (numpy's are welcome), or the UsageError of the first that does not fit."""
    whole = []
    for (name, most), value in zip(_NUMBERS, numbers):
        try:
            number = operator.index(value)
        except TypeError:
            raise UsageError(f"{name} is a whole number, not {value!r}") from None
        if not 0 <= number <= most:
            raise UsageError(f"{name} must be from 0 to {most:,}, not {number:,}")
        whole.append(number)
    return tuple(whole)


def _check_payload(stream: OpenStream, size: int) -> None:
    if size > MAX_FRAME_BYTES:
        raise UsageError(f"a frame holds at most {MAX_FRAME_BYTES:,} bytes (4 GiB - 1), not {size:,}")
    if stream.sample_bytes and size != stream.sample_bytes:
        raise UsageError(f"stream {stream.info.name!r} packs samples of {stream.sample_bytes} bytes, not {size:,}")


def _copied(payload: Payload) -> bytes:
    try:
        view = memoryview(payload)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"a payload is bytes, an array or another buffer, not {type(payload).__name__}") from None
    if view.nbytes > MAX_FRAME_BYTES:
        raise UsageError(f"a frame holds at most {MAX_FRAME_BYTES:,} bytes (4 GiB - 1), not {view.nbytes:,}")
    return view.tobytes()


def stored_frames(items: list[PendingFrame]) -> tuple[list[StoredFrame], list[Encoding | None]]:
    """The frames of one window in the given order, and how each is to be encoded.

    Samples of a packed stream become one frame at the place of the first; late ones a frame of their own.
    """
    frames: list[StoredFrame] = []
    encodings: list[Encoding | None] = []
    packs: dict[tuple[int, int], tuple[int, list[PendingFrame]]] = {}
    for item in items:
        stream, time, payload, flags, number, receive, duration = item
        if stream.sample_bytes:
            key = (stream.info.id, flags & LATE)
            if key in packs:
                packs[key][1].append(item)
                continue
            packs[key] = (len(frames), [item])
        frames.append(StoredFrame(time, stream.info.id, flags, number, payload, receive, duration))
        encodings.append(stream.encoding)
    for place, samples in packs.values():
        frames[place] = _pack(frames[place], samples)
    return frames, encodings


def _pack(first: StoredFrame, samples: list[PendingFrame]) -> StoredFrame:
    stream = samples[0].stream
    parts: list[bytes] = []
    for sample in samples:
        parts += (_TIME.pack(sample.timestamp_ns), sample.payload)
    number, stream.next_index = stream.next_index, stream.next_index + 1
    return first._replace(stored=b"".join(parts), flags=first.flags | PACKED, stream_index=number)
