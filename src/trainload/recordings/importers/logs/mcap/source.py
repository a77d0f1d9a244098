"""MCAP logs, one file or a folder of splits, as streams and frames. Needs no index; uses one where it is there."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from trainload.recordings.format.envelopes import RECORD_ENCODING, RECORD_STREAM
from trainload.recordings.format.exported import RECORDING, recording_of
from trainload.recordings.format.log_records import text_at
from trainload.recordings.importers.logs.log_bytes import FileBytes
from trainload.recordings.importers.logs.mcap.channels import McapChannels
from trainload.recordings.importers.logs.mcap.own import OwnStreams
from trainload.recordings.importers.logs.mcap.records import RecordReader
from trainload.recordings.importers.logs.mcap.structure import (
    ATTACHMENT,
    CHANNEL,
    MAGIC,
    MESSAGE,
    METADATA,
    SCHEMA,
)
from trainload.recordings.importers.logs.mcap.summary import Summary, read_summary
from trainload.recordings.importers.logs.source import LogSource
from trainload.recordings.importers.logs.topics import LogMessage, TopicStreams
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream, Span
from trainload.storage.file import FileSource

_RECORDS = SourceStream(
    RECORD_STREAM, "attachments", RECORD_ENCODING, clock="host", time_source="time of the message before it"
)
_MESSAGE_HEAD = struct.Struct("<HIQQ")
_MAX_WAITING_BYTES = 16 << 20  # of attachments before the first message, whose time they get


class McapSource(LogSource):
    """The messages of one log. Attachments and metadata records are kept as they are in the stream RECORD_STREAM."""

    PATTERN, MAGIC = "*.mcap", MAGIC
    _reader: RecordReader | None = None

    def survey(self) -> dict[str, Span]:
        """From the summaries where all files have one, else by one pass over the messages."""
        spans: dict[str, Span] = {}
        for path in self._paths:
            damage = Damage()
            with FileSource(self._files.plain(path, damage)) as file:
                content = _File(file, str(path), damage, [])
                found = _spans_of(content.summary) or _counted(content)
            for topic, span in found.items():
                spans[topic] = span.joined(spans.get(topic))
        return spans

    def _read(self, topics: TopicStreams) -> Iterator[SourceStream | SourceFrame]:
        own = OwnStreams(self.channels, self.damage, topics.take_name)
        waiting: list[bytes] = []
        last_ns, announced = -1, False
        for record in self._records():
            if isinstance(record, LogMessage):
                if last_ns < 0:
                    self._hear(topics)
                last_ns = record.log_ns
                yield from own.items(record) or topics.items(record)
            else:
                waiting.append(record)
            if waiting and (last_ns >= 0 or sum(map(len, waiting)) > _MAX_WAITING_BYTES):
                yield from _kept(waiting, last_ns, announced=announced)
                announced = True
        yield from _kept(waiting, last_ns, announced=announced)

    def _hear(self, topics: TopicStreams) -> None:
        """Take what an export of ours said of the recording, before its first message."""
        said = next((found for found in self.channels if found.topic == found.encoding == RECORDING), None)
        if said is None:
            return
        try:
            self.meta, clocks, by_log_time = recording_of(said.metadata)
        except ValueError as error:
            self.damage.add(f"the channel {RECORDING}: {error}")
            return
        topics.say(clocks, by_log_time=by_log_time and self._times is None)

    def _records(self) -> Iterator[LogMessage | bytes]:
        for path, size in zip(self._paths, self._sizes):
            with FileSource(self._files.plain(path, self.damage)) as file:
                content = _File(file, str(path), self.damage, self.channels)
                self._reader = content.reader
                yield from content.records()
            self._before, self._reader = self._before + size, None

    def _place(self) -> int:
        return 0 if self._reader is None else self._reader.place


def _kept(records: list[bytes], time_ns: int, *, announced: bool) -> Iterator[SourceStream | SourceFrame]:
    """Attachment and metadata records as frames; empties `records`. time_ns: -1 where no message came yet."""
    if records and not announced:
        yield _RECORDS
    for record in records:
        own_ns = struct.unpack_from("<Q", record, 1)[0] if record[0] == ATTACHMENT else 0
        yield SourceFrame(RECORD_STREAM, own_ns if time_ns < 0 else time_ns, record)
    records.clear()


class _File:
    """One file of a log: its channels, and its records as LogMessages or as bytes to keep."""

    def __init__(self, file: FileSource, name: str, damage: Damage, channels: list[Channel]) -> None:
        self._path = name
        self._damage = damage
        self.channels = channels
        self._numbers = McapChannels(channels, damage, name)
        source = FileBytes(file)
        self.summary = read_summary(source)
        self.reader = RecordReader(source, name, self.summary, damage)
        for opcode in (SCHEMA, CHANNEL):
            for body in (body for found, body in self.summary.records if found == opcode):
                self._numbers.define(opcode, body)

    def records(self) -> Iterator[LogMessage | bytes]:
        """Messages, and attachment and metadata records led by their opcode."""
        for opcode, body in self.reader.records():
            if opcode == MESSAGE:
                if len(body) < _MESSAGE_HEAD.size:
                    self._damage.add(f"{self._path}: a message of {len(body)} bytes", frames=1)
                    continue
                channel, sequence, log_ns, publish_ns = _MESSAGE_HEAD.unpack_from(body)
                yield LogMessage(self._numbers.place(channel), log_ns, publish_ns, sequence, body[_MESSAGE_HEAD.size :])
            elif opcode in (ATTACHMENT, METADATA):
                yield bytes((opcode,)) + bytes(body)
            else:
                self._numbers.define(opcode, body)
        self._numbers.finish()


def _spans_of(summary: Summary) -> dict[str, Span] | None:
    """Counts per topic, each over the time of the whole file: rates come out a little low, never high."""
    if summary.statistics is None:
        return None
    first, last = struct.unpack_from("<QQ", summary.statistics, 26)
    size = struct.unpack_from("<I", summary.statistics, 42)[0]
    counts = dict(struct.iter_unpack("<HQ", bytes(summary.statistics[46 : 46 + size // 10 * 10])))
    spans: dict[str, Span] = {}
    for opcode, body in summary.records:
        if opcode == CHANNEL:
            number = struct.unpack_from("<H", body)[0]
            topic, _ = text_at(body, 4)
            if counts.get(number):
                spans[topic] = Span(counts.pop(number), first, last).joined(spans.get(topic))
    return spans


def _counted(content: _File) -> dict[str, Span]:
    spans: dict[int, Span] = {}
    for record in content.records():
        if isinstance(record, LogMessage):
            span = Span(1, record.log_ns, record.log_ns)
            spans[record.channel] = span.joined(spans.get(record.channel))
    return {content.channels[number].topic: span for number, span in spans.items()}
