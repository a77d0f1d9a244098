"""What an importer gives: streams, their frames, and a count of what could not be read.

A `Source` yields a `SourceStream` before the first frame of that stream. It reads forward once with bounded memory, and
yields the same items in the same order each time it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from trainload.recordings.format.field_rules import FieldRules
from trainload.recordings.format.layouts import Layout

MAX_REASONS = 20


@dataclass(frozen=True, slots=True)
class SourceStream:
    """One stream as it will be written.

    clock, time_source: what stamped the frames ("hardware" or "host") and where that time was found, in words.
    receive_source: where the receive time was found, "" for none. packed: frames are single samples of dtype, stored
    many to a payload. channel: the log's channel that the stream came from (position in `Source.channels`). topic: the
    name that several streams want, of which the one with the most frames gets it; "" where only this one does. fields:
    what the fields are, for values between two samples (format/field_rules.py). layout: how payloads lie that are no
    plain array (format/layouts.py).
    """

    name: str
    kind: str = "generic"
    encoding: str = "raw"
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None
    clock: str = "hardware"
    time_source: str = ""
    receive_source: str = ""
    rate_hz: float | None = None
    frame_duration_ns: int | None = None
    shuffle: int = 0
    packed: bool = False
    calibration: Mapping[str, Any] = field(default_factory=dict)
    channel: int | None = None
    fields: FieldRules = field(default_factory=dict)
    layout: Layout | None = None
    topic: str = ""


class Wrapping(NamedTuple):
    """What the log had around a payload; see format/envelopes.py for the fields. channel: of `Source.channels`."""

    log_ns: int
    publish_ns: int
    sequence: int
    join: int
    offset: int
    shell: bytes
    channel: int = 0


class SourceFrame(NamedTuple):
    """One frame. receive_ns, duration_ns: 0 where unknown. wrapping: None where the payload is all there was.

    key_frame: False for a picture of a video that needs the pictures before it. number: the sensor's own number of the
    frame, -1 where frames are counted as they come.
    """

    stream: str
    timestamp_ns: int
    data: bytes | memoryview
    receive_ns: int = 0
    duration_ns: int = 0
    wrapping: Wrapping | None = None
    key_frame: bool = True
    number: int = -1


@dataclass(frozen=True, slots=True)
class Channel:
    """One topic of a log. encoding: of its messages (cdr, ros1, protobuf, json, ...). schema: its definition."""

    topic: str
    type_name: str
    encoding: str
    schema_encoding: str = ""
    schema: bytes = b""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Damage:
    """What could not be read: how many frames for certain, how many bytes, and the first reasons with their places."""

    frames: int = 0
    bytes: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, reason: str, *, frames: int = 0, size_bytes: int = 0) -> None:
        """Count one loss; only the first MAX_REASONS reasons are kept."""
        self.frames += frames
        self.bytes += size_bytes
        if len(self.reasons) < MAX_REASONS:
            self.reasons.append(reason)

    def __bool__(self) -> bool:
        return bool(self.frames or self.bytes or self.reasons)


class Span(NamedTuple):
    """How many frames a stream or topic has, and its first and last time.

    usual_ns: the usual time between frames, where pauses (between scenes) make the mean another; else 0.
    """

    frames: int
    first_ns: int
    last_ns: int
    usual_ns: int = 0

    @property
    def period_ns(self) -> float:
        """Usual, else mean time between frames; infinite for a single one."""
        if self.usual_ns:
            return float(self.usual_ns)
        return (self.last_ns - self.first_ns) / (self.frames - 1) if self.frames > 1 else float("inf")

    def joined(self, other: Span | None) -> Span:
        """The span of both."""
        if other is None:
            return self
        first, last = min(self.first_ns, other.first_ns), max(self.last_ns, other.last_ns)
        return Span(self.frames + other.frames, first, last)


class Source(Protocol):
    """A foreign recording that is open for reading."""

    damage: Damage
    channels: list[Channel]
    notes: list[str]
    """What the user should know of how it was read, in sentences."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the recording's META says besides, where the source is an export of one."""

    def survey(self) -> dict[str, Span]:
        """Every stream's or topic's span, by name; cheap where the source has an index, else one pass over it."""

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        """The streams and frames, each stream before its frames."""

    def progress(self) -> tuple[int, int]:
        """How much of how much `items()` has read by now, in bytes or frames."""
