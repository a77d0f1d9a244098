"""A recording as MCAP: what was imported from a log comes out as the log's own messages, the rest as raw frames.

With envelopes (format/envelopes.py) topic, schema, bytes, log and publish time, sequence and order equal the log's.
What the frames of other streams need to be imported again: recordings/format/exported.py.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainload.errors import UsageError
from trainload.formats.progress import Progress
from trainload.recordings.exporters.numbers import FrameNumbers
from trainload.recordings.format import rules
from trainload.recordings.format.envelopes import (
    ENVELOPE_ENCODINGS,
    ENVELOPE_STREAM,
    RECORD_ENCODING,
    RECORD_STREAM,
    Envelope,
    envelopes_from_bytes,
)
from trainload.recordings.format.exported import (
    FRAME_ENCODING,
    FRAME_TOPIC,
    LOG_TIME_FOR_ALL,
    RECORDING,
    STREAM_SCHEMA,
    FrameFacts,
    recording_texts,
)
from trainload.recordings.format.log_records import Attachment, record_from_bytes
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.frame import Frame
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.storage.atomic import AtomicFile
from trainload.storage.target import check_target

COMPRESSIONS = ("none", "lz4", "zstd")
_PROFILES = {"cdr": "ros2", "ros1": "ros1"}


@dataclass(frozen=True, slots=True)
class McapReport:
    """messages: all written. restored: of these, as a log had them. records: attachments and metadata."""

    path: str
    messages: int
    restored: int
    records: int


def export_mcap(
    recording: HyperframeReader,
    out: str | os.PathLike[str],
    *,
    compression: str = "zstd",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> McapReport:
    """Write every frame of `recording` to the MCAP file `out`, which has its name only when it is whole.

    progress: gets frames. Memory holds a chunk and a batch of envelopes. Raises UsageError without the extra
    `robotics`, for another compression, and where `out` exists.
    """
    try:
        from mcap.writer import CompressionType, Writer
    except ImportError as error:
        raise UsageError("writing MCAP needs the mcap package: pip install 'trainload[robotics]'") from error
    if compression not in COMPRESSIONS:
        raise UsageError(f"MCAP chunks are compressed by {', '.join(COMPRESSIONS)}, not by {compression!r}")
    check_target(out, overwrite=overwrite, inputs=[file.path for file in recording.files])
    with AtomicFile(out) as file:
        with file.stream() as stream:
            writer = Writer(stream, compression=CompressionType[compression.upper()])
            writer.start(profile=_profile(recording), library="trainload")
            report = _Export(recording, writer, os.fspath(out), progress).run()
            writer.finish()  # type: ignore[no-untyped-call]
        file.commit()
    return report


def _imported(recording: HyperframeReader, key: str, kind: type) -> Any:
    """A part of META "import"; an empty one where it is not there, or not of that kind."""
    facts = recording.meta.get("import")
    found = facts.get(key) if isinstance(facts, dict) else None
    return found if isinstance(found, kind) else kind()


def _profile(recording: HyperframeReader) -> str:
    """The MCAP profile that the imported channels share: ros1, ros2, or none."""
    channels = _imported(recording, "channels", list)
    encodings = {str(channel.get("encoding")) if isinstance(channel, dict) else "" for channel in channels}
    encodings -= {FRAME_ENCODING, RECORDING}
    return _PROFILES.get(encodings.pop(), "") if len(encodings) == 1 else ""


def _channel_of(facts: Any, path: str) -> tuple[str, str, str, str, bytes, dict[str, str]]:
    """Topic, encoding, type, schema encoding, schema and metadata of a channel in META. Raises FormatError."""
    try:
        schema = str(facts["schema"])
        body = base64.b64decode(schema, validate=True) if facts["schema_coding"] == "base64" else schema.encode()
        metadata = {str(key): str(value) for key, value in facts["metadata"].items()}
        texts = tuple(str(facts[key]) for key in ("topic", "encoding", "type", "schema_encoding"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise rules.CHANNELS.broken(
            field="META import.channels",
            offset=None,
            found=repr(error),
            expected="topic, type, encoding, schema and metadata",
            path=path,
        ) from error
    topic, encoding, name, schema_encoding = texts
    return topic, encoding, name, schema_encoding, body, metadata


class _Export:
    def __init__(self, recording: HyperframeReader, writer: Any, path: str, progress: Progress | None) -> None:
        self._recording = recording
        self._writer = writer
        self._path = path
        self._progress = progress
        self._channels = _imported(recording, "channels", list)
        self._facts = _imported(recording, "streams", dict)
        self._frames: dict[str, FrameNumbers] = {}
        self._numbers: dict[int | str, int] = {}
        self._own = {
            name
            for name, encodings in ((ENVELOPE_STREAM, ENVELOPE_ENCODINGS), (RECORD_STREAM, (RECORD_ENCODING,)))
            if name in recording.streams and recording.streams[name].encoding in encodings
        }
        self._schemas: dict[tuple[str, str, bytes], int] = {}
        self._total = sum(recording.count(name) for name in recording.streams)
        self._done = self._restored = 0

    def run(self) -> McapReport:
        texts = self._recording_texts()
        if texts:
            self._register(RECORDING, RECORDING, "", "", b"", texts)
        if ENVELOPE_STREAM in self._own:
            self._restore()
            self._register_silent()
        plain = [name for name in self._recording.streams if name not in self._own]
        plain = [name for name in plain if not self._frames_of(name).written.all()]
        for frame in self._recording.frames(plain) if plain else ():
            frames = self._frames_of(frame.stream)
            place = frames.place(frame.stream_index)
            if place is None or not frames.written[place]:
                self._write_raw(frame, frames.received(place), frames.duration(place))
        records = self._write_records() if RECORD_STREAM in self._own else 0
        if self._progress is not None:
            self._progress(self._total, self._total)
        return McapReport(self._path, self._done, self._restored, records)

    def _restore(self) -> None:
        """Write the log's messages in the log's order. What a slice took out of the recording stays out."""
        infos = self._recording.infos
        for envelope in self._envelopes():
            info = infos.get(envelope.stream_id)
            frames = None if info is None else self._frames_of(info.name)
            place = None if frames is None else frames.place(envelope.stream_index)
            if info is None or frames is None or place is None:
                continue
            message = envelope.message(self._recording.read_at_index(info.name, place).data)
            number = self._log_channel(info, envelope.channel)
            self._write(number, envelope.log_ns, envelope.publish_ns, envelope.sequence, message)
            frames.written[place] = True
            self._restored += 1

    def _frames_of(self, stream: str) -> FrameNumbers:
        if stream not in self._frames:
            recording = self._recording
            self._frames[stream] = FrameNumbers(
                recording.stream_index(stream), recording.receive_times(stream), recording.durations(stream)
            )
        return self._frames[stream]

    def _envelopes(self) -> Iterator[Envelope]:
        encoding = self._recording.streams[ENVELOPE_STREAM].encoding
        for place in np.argsort(self._recording.stream_index(ENVELOPE_STREAM), kind="stable").tolist():
            data = self._recording.read_at_index(ENVELOPE_STREAM, place).data
            yield from envelopes_from_bytes(data, encoding, path=self._recording.path)

    def _write(self, number: int, log_ns: int, publish_ns: int, sequence: int, data: bytes) -> None:
        self._writer.add_message(number, log_time=log_ns, data=data, publish_time=publish_ns, sequence=sequence)
        self._done += 1
        if self._progress is not None and self._done % 256 == 0:
            self._progress(self._done, self._total)

    def _write_raw(self, frame: Frame, received_ns: int, duration_ns: int) -> None:
        """A frame of a stream that no log had, and what its message cannot say."""
        number, time_ns = self._raw_channel(frame.info), frame.timestamp_ns
        log_ns = received_ns or time_ns
        if duration_ns or not frame.key or received_ns == time_ns:
            facts = FrameFacts(frame.info.id, frame.stream_index, received_ns, duration_ns, frame.key)
            if FRAME_TOPIC not in self._numbers:
                self._numbers[FRAME_TOPIC] = self._register(FRAME_TOPIC, FRAME_ENCODING, "", "", b"", {})
            self._writer.add_message(
                self._numbers[FRAME_TOPIC], log_time=log_ns, data=facts.to_bytes(), publish_time=time_ns, sequence=0
            )
        self._write(number, log_ns, time_ns, frame.stream_index, bytes(frame.data))

    def _recording_texts(self) -> dict[str, str]:
        """What belongs to the recording and to none of its messages."""
        facts = {
            name: found for name, found in self._facts.items() if isinstance(found, dict) and name in self._recording
        }
        of_log = {name: found for name, found in facts.items() if isinstance(found.get("channel"), int)}
        by_log_time = any(found.get("time_source") == LOG_TIME_FOR_ALL for found in of_log.values())
        clocks = {}
        for name, found in of_log.items():
            usual = "hardware" if str(found.get("time_source")).startswith("stamp") else "host"
            if self._recording.streams[name].clock != usual:
                clocks[name] = self._recording.streams[name].clock
        meta = {key: value for key, value in self._recording.meta.items() if key != "import"}
        return recording_texts(meta, clocks, by_log_time=by_log_time)

    def _register_silent(self) -> None:
        """The channels of the log that had no message."""
        of_streams = {found.get("channel") for found in self._facts.values() if isinstance(found, dict)}
        for position, facts in enumerate(self._channels):
            if position not in self._numbers and position not in of_streams:
                channel = _channel_of(facts, self._path)
                if channel[3] != STREAM_SCHEMA and channel[1] not in (FRAME_ENCODING, RECORDING):
                    self._numbers[position] = self._register(*channel)

    def _log_channel(self, info: StreamInfo, position: int | None) -> int:
        """position: of the channel; None where the envelope does not say it and the stream's facts do."""
        if position is None:
            facts = self._facts.get(info.name)
            position = facts.get("channel") if isinstance(facts, dict) else None
        if not isinstance(position, int) or not 0 <= position < len(self._channels):
            return self._raw_channel(info)
        if position not in self._numbers:
            self._numbers[position] = self._register(*_channel_of(self._channels[position], self._path))
        return self._numbers[position]

    def _raw_channel(self, info: StreamInfo) -> int:
        if info.name not in self._numbers:
            body = json.dumps(info.to_json()).encode()
            name = f"trainload.{info.kind}"
            self._numbers[info.name] = self._register(info.name, info.encoding, name, STREAM_SCHEMA, body, {})
        return self._numbers[info.name]

    def _register(
        self, topic: str, encoding: str, name: str, schema_encoding: str, body: bytes, metadata: dict[str, str]
    ) -> int:
        key = (name, schema_encoding, body)
        if key not in self._schemas:
            has_schema = bool(name or schema_encoding or body)
            self._schemas[key] = self._writer.register_schema(name, schema_encoding, body) if has_schema else 0
        number: int = self._writer.register_channel(topic, encoding, self._schemas[key], metadata)
        return number

    def _write_records(self) -> int:
        count = 0
        for frame in self._recording.iter_positions(RECORD_STREAM, 0, self._recording.count(RECORD_STREAM)):
            found = record_from_bytes(frame.data, path=self._path)
            if isinstance(found, Attachment):
                data = bytes(found.data)
                self._writer.add_attachment(found.create_ns, found.log_ns, found.name, found.media_type, data)
            else:
                self._writer.add_metadata(found.name, found.texts)
            count += 1
        return count
