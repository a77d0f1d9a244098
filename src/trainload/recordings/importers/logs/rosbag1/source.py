"""ROS 1 bags (format 2.0) read forward from their chunks: no index is needed, so unfinished bags are read too.

An index that is there gives the survey, and connections whose own record is lost. The `rosbags` library reads finished
bags only; the tests compare with it.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

from trainload.recordings.format import rules
from trainload.recordings.importers.logs.channel_numbers import ChannelNumbers
from trainload.recordings.importers.logs.log_bytes import ChunkBytes, FileBytes, LogBytes
from trainload.recordings.importers.logs.rosbag1.records import (
    BAD,
    BAG_HEADER,
    CHUNK,
    CHUNK_INFO,
    CONNECTION,
    INDEX,
    INNER,
    MESSAGE,
    OUTER,
    Record,
    fields_of,
    is_at_end,
    next_sound,
    record_at,
)
from trainload.recordings.importers.logs.source import LogSource
from trainload.recordings.importers.logs.topics import LogMessage, TopicStreams
from trainload.recordings.importers.logs.unpack import unpack_partly
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream, Span
from trainload.storage.file import FileSource

MAGIC = b"#ROSBAG V2.0\n"
_KEPT: tuple[str, ...] = ("md5sum", "callerid", "latching")
_MAX_CHUNK_BYTES = 256 << 20


class Rosbag1Source(LogSource):
    """The messages of one bag, or of the bags of a folder."""

    PATTERN, MAGIC = "*.bag", MAGIC
    _bag: _Bag | None = None

    def survey(self) -> dict[str, Span]:
        """From the indexes of finished bags, else by one pass over the messages."""
        spans: dict[str, Span] = {}
        for path in self._paths:
            damage = Damage()
            with FileSource(self._files.plain(path, damage)) as file:
                bag = _Bag(file, str(path), damage, [])
                for topic, span in (bag.indexed_spans() or bag.counted_spans()).items():
                    spans[topic] = span.joined(spans.get(topic))
        return spans

    def _read(self, topics: TopicStreams) -> Iterator[SourceStream | SourceFrame]:
        for path, size in zip(self._paths, self._sizes):
            with FileSource(self._files.plain(path, self.damage)) as file:
                self._bag = _Bag(file, str(path), self.damage, self.channels)
                for message in self._bag.messages():
                    yield from topics.items(message)
            self._before, self._bag = self._before + size, None

    def _place(self) -> int:
        return 0 if self._bag is None else self._bag.place


class _Bag:
    """One file. channels: of the log, to which it adds its own; place: how far it has read."""

    def __init__(self, file: FileSource, name: str, damage: Damage, channels: list[Channel]) -> None:
        self._source = FileBytes(file)
        self._name = name
        self._damage = damage
        self.channels = channels
        self.place = 0
        self._numbers = ChannelNumbers(channels, damage, name, "connection")
        self._counts: Counter[int] = Counter()  # by the index: messages per connection, and the time of all
        self._span: Span | None = None
        self._found: Counter[int] = Counter()  # messages per connection of the last chunk, which the index after it ...
        self._lost_some = False  # ... has more of, if this is True

    def messages(self) -> Iterator[LogMessage]:
        """Raises FormatError for a file that is no bag; counts and skips what is damaged."""
        source = self._source
        begin = bytes(source.at(0, min(source.size, len(MAGIC))))
        if begin != MAGIC:
            raise rules.BAG1_MAGIC.broken(
                field="magic",
                offset=0,
                found=begin,
                expected=MAGIC,
                path=self._name,
            )
        self._read_index()
        self.place = len(MAGIC)
        while self.place < source.size:
            record = record_at(source, self.place)
            if record is None:
                self._skip()
                continue
            if record.end > source.size:
                if next_sound(source, self.place + 1, OUTER) < source.size:
                    self._skip()  # its length is wrong
                    continue
                self._damage.add(f"{self._name}: the file ends inside the record at byte {self.place:,}")
            yield from self._contents(record)
            if self._ends_well(record):
                self.place = min(record.end, source.size)
            else:
                self._skip()

    def counted_spans(self) -> dict[str, Span]:
        """Per topic, by one pass over the messages."""
        spans: dict[str, Span] = {}
        for message in self.messages():
            topic, time = self.channels[message.channel].topic, message.log_ns
            spans[topic] = Span(1, time, time).joined(spans.get(topic))
        return spans

    def indexed_spans(self) -> dict[str, Span]:
        """Counts per topic, each over the time of the whole bag; {} where the bag has no sound index."""
        self._read_index()
        spans: dict[str, Span] = {}
        for number, count in self._counts.items():
            if number in self._numbers and self._span is not None:
                topic = self.channels[self._numbers.place(number)].topic
                spans[topic] = self._span._replace(frames=count).joined(spans.get(topic))
        return spans

    def _read_index(self) -> None:
        """Connections and chunk infos from where the bag's header says; nothing where they are not sound to the end."""
        head = record_at(self._source, len(MAGIC))
        place = head.number("index_pos") if head is not None and head.operation == BAG_HEADER else 0
        connections: list[Record] = []
        counts: Counter[int] = Counter()
        span: Span | None = None
        while len(MAGIC) < place < self._source.size:
            record = record_at(self._source, place)
            if record is None or record.end > self._source.size or record.operation not in (CONNECTION, CHUNK_INFO):
                return
            place = record.end
            if record.operation == CONNECTION:
                connections.append(record)
                continue
            for number, count in struct.iter_unpack("<II", self._source.at(record.start, record.end - record.start)):
                counts[number] += count
            span = Span(1, record.time_ns("start_time"), record.time_ns("end_time")).joined(span)
        for record in connections:
            self._connection(record, self._source)
        self._counts, self._span = counts, span

    def _ends_well(self, record: Record) -> bool:
        """True where the record's length is sure: by its own numbers, by unpacking it, or as a record follows."""
        sure = record.operation in (INDEX, CHUNK_INFO) or (record.operation == CHUNK and not self._lost_some)
        return sure or record.end >= self._source.size or record_at(self._source, record.end) is not None

    def _skip(self) -> None:
        start, self.place = self.place, next_sound(self._source, self.place + 1, OUTER)
        why = "no record" if self.place < self._source.size else "no record up to the end"
        self._damage.add(
            f"{self._name}: byte {start:,}: {why}; skipped to byte {self.place:,}", size_bytes=self.place - start
        )

    def _contents(self, record: Record) -> Iterator[LogMessage]:
        size = min(record.end, self._source.size) - record.start
        if record.operation == INDEX and self._lost_some:
            self._damage.frames += max(record.number("count") - self._found[record.number("conn")], 0)
        elif record.operation == CHUNK:
            self._found.clear()
            self._lost_some = False
            if max(size, record.number("size")) > _MAX_CHUNK_BYTES:
                self._lose(f"{max(size, record.number('size')):,} bytes are more than an import may hold", size)
                return
            yield from self._chunk(record, self._source.at(record.start, size))
        elif record.operation in (MESSAGE, CONNECTION) and record.end <= self._source.size:
            yield from self._item(record, self._source)

    def _chunk(self, record: Record, stored: memoryview) -> Iterator[LogMessage]:
        cut = record.end > self._source.size
        compression, size = record.header["compression"].decode("ascii", "replace"), record.number("size")
        unpacked, problem = unpack_partly(compression, stored, size)
        if problem and not cut and compression == "lz4":
            self._lose(problem, len(stored))  # its checksum comes last: what was unpacked may be anything
            return
        if problem:
            self._lose(problem, size - len(unpacked))
        yield from self._inner(ChunkBytes(unpacked), cut=bool(problem))

    def _inner(self, source: LogBytes, *, cut: bool) -> Iterator[LogMessage]:
        place, record = 0, record_at(source, 0)
        while place < source.size:
            if record is not None and record.end <= source.size:
                following = record_at(source, record.end)
                if following is not None or is_at_end(source, record.end, cut=cut):
                    if record.operation == MESSAGE:
                        self._found[record.number("conn")] += 1
                    yield from self._item(record, source)
                    place, record = record.end, following
                    continue
            start, place = place, next_sound(source, place + 1, INNER)
            record = record_at(source, place)
            self._lose(f"no sound record from its byte {start:,} to {place:,}", place - start)

    def _item(self, record: Record, source: LogBytes) -> Iterator[LogMessage]:
        if record.operation == CONNECTION:
            self._connection(record, source)
        if record.operation != MESSAGE:
            return
        number, time = record.number("conn"), record.time_ns("time")
        yield LogMessage(self._numbers.place(number), time, time, 0, source.at(record.start, record.end - record.start))

    def _connection(self, record: Record, source: LogBytes) -> None:
        number = record.number("conn")
        if number in self._numbers:
            return
        try:
            about = fields_of(source.at(record.start, record.end - record.start))
            name = about["type"].decode("utf-8", "replace")
        except BAD as error:
            self._damage.add(f"byte {self.place:,}: a broken connection: {error}")
            return
        kept = [key for key in _KEPT if key in about]
        metadata = {key: about[key].decode("utf-8", "replace") for key in kept}
        topic = record.header["topic"].decode("utf-8", "replace")
        definition = about.get("message_definition", b"")
        self._numbers.add(number, Channel(topic, name, "ros1", "ros1msg", definition, metadata))

    def _lose(self, why: str, size: int) -> None:
        self._lost_some = True
        self._damage.add(f"the chunk at byte {self.place:,}: {why}", size_bytes=size)
