"""What an export to MCAP adds, so that an import of it gives the same recording again.

A stream that no log had is a channel of schema encoding STREAM_SCHEMA; the schema is the stream's object of section
STRM. A message of it is a frame's payload: publish time is the acquisition time, log time the receive time (where that
is unknown: the acquisition time again), sequence the stream index. A frame of which that does not say all has a message
on FRAME_TOPIC right before it, a FrameFacts record. What belongs to the recording is the metadata of the first channel,
RECORDING by topic and encoding, which has no messages (a metadata record would be one that the log did not have):

| key | value |
|---|---|
| meta | the JSON of META, without what an import noted there |
| clocks | a JSON object: the clock of a log's stream, where its user named it |
| times | "log" where the user put all frames of a log on its log times |
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainload.formats.json_values import parse_json
from trainload.recordings.format.streams import CLOCKS

STREAM_SCHEMA = "trainload.stream"
FRAME_TOPIC = "trainload/frames"
FRAME_ENCODING = "trainload.frames.v1"
RECORDING = "trainload.recording"
LOG_TIME = "log time"
LOG_TIME_FOR_ALL = "log time, as asked for"
_FACTS = struct.Struct("<HIQIB")


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """stream_id u16 (of the schema), stream_index u32, receive_ns u64 (0: unknown), duration_ns u32, key_frame u8."""

    stream_id: int
    stream_index: int
    receive_ns: int
    duration_ns: int
    key_frame: bool

    def to_bytes(self) -> bytes:
        return _FACTS.pack(self.stream_id, self.stream_index, self.receive_ns, self.duration_ns, self.key_frame)

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> FrameFacts:
        """Raises struct.error for another size."""
        stream_id, index, receive_ns, duration_ns, key = _FACTS.unpack(data)
        return FrameFacts(stream_id, index, receive_ns, duration_ns, bool(key))


def recording_texts(meta: dict[str, Any], clocks: dict[str, str], *, by_log_time: bool) -> dict[str, str]:
    """The metadata of the channel RECORDING; {} where there is nothing to say."""
    found = {"meta": json.dumps(meta)} if meta else {}
    if clocks:
        found["clocks"] = json.dumps(clocks)
    if by_log_time:
        found["times"] = "log"
    return found


def recording_of(texts: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str], bool]:
    """META, clocks, and True for log times, of what `recording_texts` made. Raises ValueError for anything else."""
    try:
        meta = json.loads(texts.get("meta", "{}"))  # META may hold NaN
    except RecursionError as error:
        raise ValueError("META is nested too deep") from error
    clocks = parse_json(texts.get("clocks", "{}"))
    if not isinstance(meta, dict) or not isinstance(clocks, dict) or not set(map(str, clocks.values())) <= set(CLOCKS):
        raise ValueError("meta and clocks must be objects, and a clock one of " + ", ".join(CLOCKS))
    return meta, {str(name): str(clock) for name, clock in clocks.items()}, texts.get("times") == "log"
