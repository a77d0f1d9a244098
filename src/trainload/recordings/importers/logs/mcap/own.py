"""Streams of a recording that was exported to MCAP, as they were: format/exported.py says what that adds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np

from trainload.formats.json_values import parse_json
from trainload.recordings.format.exported import FRAME_ENCODING, FRAME_TOPIC, STREAM_SCHEMA, FrameFacts
from trainload.recordings.format.streams import TIME_FIELD, StreamInfo
from trainload.recordings.importers.logs.topics import LogMessage
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream

_TIME = struct.Struct("<Q")


class OwnStreams:
    """channels: of the log. take_name: gives a stream name that no other stream has."""

    def __init__(self, channels: list[Channel], damage: Damage, take_name: Callable[[str], str]) -> None:
        self._channels = channels
        self._damage = damage
        self._take_name = take_name
        self._infos: dict[int, StreamInfo | None] = {}  # by channel; None: it is no stream of ours
        self._names: dict[int, str] = {}
        self._facts: dict[int, FrameFacts] = {}  # by stream id, of the frame that comes next

    def items(self, message: LogMessage) -> Iterator[SourceStream | SourceFrame] | None:
        """The stream, where it is new, and the frames of one message; None for a message of any other log."""
        channel = self._channels[message.channel]
        if channel.topic == FRAME_TOPIC and channel.encoding == FRAME_ENCODING:
            self._note(message)
            return iter(())
        if channel.schema_encoding != STREAM_SCHEMA:
            return None
        if message.channel not in self._infos:
            self._infos[message.channel] = self._info(channel)
        info = self._infos[message.channel]
        return None if info is None else self._frames(message, info)

    def _frames(self, message: LogMessage, info: StreamInfo) -> Iterator[SourceStream | SourceFrame]:
        name = self._names.get(message.channel)
        if name is None:
            name = self._names[message.channel] = self._take_name(info.name)
            yield _stream(info, name)
        facts = self._facts.pop(info.id, None)
        receive_ns = message.log_ns if message.log_ns != message.publish_ns else 0
        if facts is None or facts.stream_index != message.sequence:
            facts = FrameFacts(info.id, message.sequence, receive_ns, 0, True)
        if not info.packed:
            yield SourceFrame(
                name,
                message.publish_ns,
                message.data,
                facts.receive_ns,
                facts.duration_ns,
                None,
                facts.key_frame,
                message.sequence,
            )
            return
        size = info.dtype.itemsize if info.dtype is not None else 0
        if size == 0 or len(message.data) % size:
            self._damage.add(f"{name} at {message.publish_ns}: {len(message.data):,} bytes are no samples", frames=1)
            return
        for place in range(0, len(message.data), size):
            time_ns = _TIME.unpack_from(message.data, place)[0]
            sample = message.data[place + _TIME.size : place + size]
            yield SourceFrame(name, time_ns, sample, facts.receive_ns, facts.duration_ns, None, facts.key_frame)

    def _note(self, message: LogMessage) -> None:
        try:
            facts = FrameFacts.from_bytes(message.data)
        except struct.error as error:
            self._damage.add(f"{FRAME_TOPIC} at {message.log_ns}: {error}")
            return
        self._facts[facts.stream_id] = facts

    def _info(self, channel: Channel) -> StreamInfo | None:
        try:
            return StreamInfo.from_json(parse_json(channel.schema))
        except (ValueError, TypeError, OverflowError) as error:
            self._damage.add(f"{channel.topic}: its schema is no stream, kept as messages: {error}")
            return None


def _stream(info: StreamInfo, name: str) -> SourceStream:
    dtype = info.dtype
    if info.packed and dtype is not None and dtype.names:
        dtype = np.dtype([(field, dtype[field]) for field in dtype.names if field != TIME_FIELD])
    return SourceStream(
        name,
        info.kind,
        info.encoding,
        dtype,
        None if info.packed else info.shape,
        info.clock,
        time_source="publish time, as trainload exported it",
        receive_source="log time",
        rate_hz=info.rate_hz,
        frame_duration_ns=info.frame_duration_ns,
        shuffle=info.shuffle,
        packed=info.packed,
        calibration=info.calibration,
    )
