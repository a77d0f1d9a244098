"""ROS 1 bags (format 2.0) read forward from their chunks: no index is needed, so unfinished bags are read too.

Source: http://wiki.ros.org/Bags/Format/2.0. The `rosbags` library reads finished bags only; the tests compare with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from trainload.errors import FormatError
from trainload.importers.log_source import LogSource
from trainload.importers.source import Channel, Damage, SourceFrame, SourceStream, Span
from trainload.importers.topics import LogMessage
from trainload.importers.unpack import unpack_partly
from trainload.storage.file import FileSource

MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _BAG_HEADER, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = 0x02, 0x03, 0x04, 0x05, 0x06, 0x07
_OPERATIONS = (_MESSAGE, _BAG_HEADER, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION)
_KEPT: tuple[str, ...] = ("md5sum", "callerid", "latching")
_MAX_HEADER_BYTES = 1 << 20
_MAX_CHUNK_BYTES = 256 << 20
_BAD = (ValueError, KeyError, struct.error)


class Rosbag1Source(LogSource):
    """The messages of one bag, or of the bags of a folder."""

    PATTERN, MAGIC = "*.bag", MAGIC
    _bag: _Bag | None = None

    def survey(self) -> dict[str, Span]:
        """By one pass over the messages."""
        spans: dict[str, Span] = {}
        for path in self._paths:
            with FileSource(path) as file:
                bag = _Bag(file, Damage(), [])
                for message in bag.messages():
                    topic, time = bag.channels[message.channel].topic, message.log_ns
                    spans[topic] = Span(1, time, time).joined(spans.get(topic))
        return spans

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        """Every message in the order of the bag."""
        topics = self._topics()
        for path, size in zip(self._paths, self._sizes):
            with FileSource(path) as file:
                self._bag = _Bag(file, self.damage, self.channels)
                for message in self._bag.messages():
                    yield from topics.items(message)
            self._before, self._bag = self._before + size, None

    def _place(self) -> int:
        return 0 if self._bag is None else self._bag.place


class _Bag:
    def __init__(self, file: FileSource, damage: Damage, channels: list[Channel]) -> None:
        self._file = file
        self._damage = damage
        self.channels = channels
        self.place = 0
        self._numbers: dict[int, int] = {}

    def messages(self) -> Iterator[LogMessage]:
        """Raises FormatError for a file that is no bag; counts and skips what is damaged."""
        file = self._file
        begin = file.read_at(0, min(file.size, len(MAGIC)))
        if begin != MAGIC:
            raise FormatError(
                "a ROS 1 bag begins with its version line", field="magic", offset=0, found=begin, expected=MAGIC,
                path=file.path,
            )  # fmt: skip
        self.place = len(MAGIC)
        while self.place < file.size:
            try:
                header, start, size = self._record()
            except _BAD as error:
                left = file.size - self.place
                self._damage.add(f"{file.path}: no record at byte {self.place:,}: {error}", size_bytes=left)
                return
            cut = size > file.size - start
            if cut:
                self._damage.add(f"{file.path}: the file ends inside the record at byte {self.place:,}")
                size = file.size - start
            yield from self._contents(header, start, size, cut=cut)
            self.place = start + size

    def _record(self) -> tuple[dict[str, bytes], int, int]:
        """The header of the record at `place`, and where its data begins and how long it claims to be."""
        file = self._file
        if file.size - self.place < 8:
            raise ValueError(f"{file.size - self.place} bytes are left")
        header_size = struct.unpack("<I", file.read_at(self.place, 4))[0]
        if header_size > min(_MAX_HEADER_BYTES, file.size - self.place - 8):
            raise ValueError(f"a header of {header_size:,} bytes")
        header = _header(memoryview(file.read_at(self.place + 4, header_size)))
        if header["op"][0] not in _OPERATIONS:
            raise ValueError(f"operation {header['op'][0]}")
        size = struct.unpack("<I", file.read_at(self.place + 4 + header_size, 4))[0]
        return header, self.place + 8 + header_size, size

    def _contents(self, header: dict[str, bytes], start: int, size: int, *, cut: bool) -> Iterator[LogMessage]:
        operation = header["op"][0]
        if operation in (_INDEX, _CHUNK_INFO, _BAG_HEADER):
            return
        if size > _MAX_CHUNK_BYTES:
            self._damage.add(f"byte {self.place:,}: a record of {size:,} bytes is more than an import may hold",
                             size_bytes=size)  # fmt: skip
            return
        data = memoryview(self._file.read_at(start, size))
        if operation == _CHUNK:
            yield from self._chunk(header, data)
        elif not cut:
            yield from self._item(header, data)

    def _chunk(self, header: dict[str, bytes], stored: memoryview) -> Iterator[LogMessage]:
        try:
            size = struct.unpack("<I", header["size"])[0]
            if size > _MAX_CHUNK_BYTES:
                raise ValueError(f"{size:,} bytes unpacked are more than an import may hold")
            unpacked, problem = unpack_partly(header["compression"].decode("ascii", "replace"), stored, size)
        except _BAD as error:
            self._damage.add(f"the chunk at byte {self.place:,}: {error}", size_bytes=len(stored))
            return
        if problem:
            self._damage.add(f"the chunk at byte {self.place:,}: {problem}", size_bytes=size - len(unpacked))
        data, place = memoryview(unpacked), 0
        while place < len(data):
            try:
                header_size = struct.unpack_from("<I", data, place)[0]
                inner = _header(data[place + 4 : place + 4 + header_size])
                start = place + 8 + header_size
                end = start + struct.unpack_from("<I", data, start - 4)[0]
                if end > len(data):
                    raise ValueError(f"it ends inside a record at its byte {place:,}")
            except _BAD as error:
                self._damage.add(f"the chunk at byte {self.place:,}: {error}", size_bytes=len(data) - place)
                return
            yield from self._item(inner, data[start:end])
            place = end

    def _item(self, header: dict[str, bytes], data: memoryview) -> Iterator[LogMessage]:
        try:
            operation = header["op"][0]
            if operation not in (_CONNECTION, _MESSAGE):
                return
            number = struct.unpack("<I", header["conn"])[0]
            if operation == _CONNECTION:
                self._connection(number, header, data)
                return
            seconds, nanoseconds = struct.unpack("<II", header["time"])
        except _BAD as error:
            self._damage.add(f"byte {self.place:,}: a broken record: {error}", frames=1)
            return
        if number not in self._numbers:
            self._damage.add(f"connection {number} is not described, kept as connection_{number}")
            self._register(number, Channel(f"connection_{number}", "unknown", "unknown"))
        time = seconds * 1_000_000_000 + nanoseconds
        yield LogMessage(self._numbers[number], time, time, 0, data)

    def _connection(self, number: int, header: dict[str, bytes], data: memoryview) -> None:
        if number in self._numbers:
            return
        about = _header(data)
        kept = [key for key in _KEPT if key in about]
        metadata = {key: about[key].decode("utf-8", "replace") for key in kept}
        name = about["type"].decode("utf-8", "replace")
        topic = header["topic"].decode("utf-8", "replace")
        definition = about.get("message_definition", b"")
        self._register(number, Channel(topic, name, "ros1", "ros1msg", definition, metadata))

    def _register(self, number: int, channel: Channel) -> None:
        if channel not in self.channels:
            self.channels.append(channel)
        self._numbers[number] = self.channels.index(channel)


def _header(data: memoryview) -> dict[str, bytes]:
    """name=value fields. Raises ValueError where one leaves the header."""
    fields: dict[str, bytes] = {}
    place = 0
    while place < len(data):
        size = struct.unpack_from("<I", data, place)[0]
        end = place + 4 + size
        if end > len(data):
            raise ValueError(f"a header field of {size:,} bytes where {len(data) - place - 4} are left")
        name, equals, value = bytes(data[place + 4 : end]).partition(b"=")
        if not equals:
            raise ValueError("a header field without '='")
        fields[name.decode("ascii", "replace")] = value
        place = end
    return fields
