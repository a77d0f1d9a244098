"""ROS 2 bags in SQLite: a .db3 file, or a bag folder with its splits; MCAP splits go to the MCAP importer.

Read with the standard library, which goes on after a damaged page. Bags older than 2023 carry no message definitions;
where `rosbags` (extra `robotics`) is installed, its definitions of the standard types stand in and are marked as such.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from trainload.errors import FormatError, UsageError
from trainload.importers.log_source import LogSource
from trainload.importers.mcap import McapSource
from trainload.importers.source import Channel, SourceFrame, SourceStream, Span
from trainload.importers.topics import LogMessage

MAGIC = b"SQLite format 3\0"
_MAX_MESSAGE_BYTES = 256 << 20
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the latter where the error text itself quotes damaged bytes
_SPANS = (
    "SELECT name, count(*), min(timestamp), max(timestamp) FROM messages JOIN topics ON topic_id = topics.id "
    "WHERE typeof(timestamp) = 'integer' AND typeof(name) = 'text' GROUP BY name"
)
_MESSAGES_AFTER = "SELECT id, topic_id, timestamp, data FROM messages WHERE id > ? ORDER BY id"


class Rosbag2Source(LogSource):
    """The messages of one bag."""

    PATTERN, MAGIC = "*.db3", MAGIC
    _bytes_read = 0.0  # of the file that is being read

    def survey(self) -> dict[str, Span]:
        """By the database's own counting."""
        spans: dict[str, Span] = {}
        for path in self._paths:
            try:
                with closing(_open(path)) as bag:
                    for topic, count, first, last in bag.execute(_SPANS):
                        spans[topic] = Span(count, first, last).joined(spans.get(topic))
            except _UNREADABLE as error:
                self.notes.append(f"{path.name} could not be counted in advance: {error}")
        return spans

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        """Every message in the order in which it was written."""
        topics = self._topics()
        for path, size in zip(self._paths, self._sizes):
            with closing(_open(path)) as bag:
                numbers = self._channels(bag, path)
                for share, message in self._messages(bag, path, numbers):
                    self._bytes_read = share * size
                    yield from topics.items(message)
            self._before, self._bytes_read = self._before + size, 0.0

    def _place(self) -> int:
        return int(self._bytes_read)

    def _channels(self, bag: sqlite3.Connection, path: Path) -> dict[int, int]:
        numbers: dict[int, int] = {}
        definitions = _definitions(bag)
        try:
            rows = bag.execute("SELECT * FROM topics").fetchall()
        except _UNREADABLE as error:
            self.damage.add(f"{path}: its topics cannot be read: {error}")
            return numbers
        for row in rows:
            encoding, definition = definitions.get(row["type"]) or _standard_definition(row["type"])
            keys = ("offered_qos_profiles", "type_description_hash")
            metadata = {key: str(row[key]) for key in keys if key in row.keys()}  # noqa: SIM118 - a Row iterates values
            if encoding and row["type"] not in definitions:
                metadata["definition"] = "by rosbags, not in the bag"
            channel = Channel(
                str(row["name"]), str(row["type"]), str(row["serialization_format"]), encoding, definition, metadata
            )
            if channel not in self.channels:
                self.channels.append(channel)
            numbers[row["id"]] = self.channels.index(channel)
        return numbers

    def _messages(
        self, bag: sqlite3.Connection, path: Path, numbers: dict[int, int]
    ) -> Iterator[tuple[float, LogMessage]]:
        """(share read, message). After a damaged page it goes on behind it, in steps that double until one is good."""
        try:
            last = bag.execute("SELECT max(id) FROM messages").fetchone()[0] or 0
        except _UNREADABLE as error:
            self.damage.add(f"{path}: its messages cannot be read: {error}", size_bytes=path.stat().st_size)
            return
        place, step = -1, 1
        while place < last:
            try:
                rows = bag.execute(_MESSAGES_AFTER, (place,))
                for row in rows:
                    place, step = row["id"], 1
                    message = self._message(row, path, numbers)
                    if message is not None:
                        yield place / max(last, 1), message
                return
            except _UNREADABLE as error:
                lost = min(step, last - place)
                self.damage.add(f"{path}: messages {place + 1} to {place + lost}: {error}", frames=lost)
                place, step = place + step, step * 2

    def _message(self, row: Any, path: Path, numbers: dict[int, int]) -> LogMessage | None:
        data, time, topic = row["data"], row["timestamp"], row["topic_id"]
        if not isinstance(data, bytes) or not isinstance(time, int) or time < 0 or len(data) > _MAX_MESSAGE_BYTES:
            self.damage.add(f"{path}: message {row['id']} is no message", frames=1)
            return None
        if topic not in numbers:
            self.damage.add(f"{path}: topic {topic} is not described, kept as topic_{topic}")
            self.channels.append(Channel(f"topic_{topic}", "unknown", "unknown"))
            numbers[topic] = len(self.channels) - 1
        return LogMessage(numbers[topic], time, time, 0, memoryview(data))


def open_rosbag2(
    path: str | Path, *, clocks: Mapping[str, str] | None = None, times: str = "stamp"
) -> Rosbag2Source | McapSource:
    """The bag at `path`. Raises UsageError for bags that rosbag2 compressed, as files or message by message."""
    folder = Path(path)
    if folder.is_dir():
        if any(folder.glob("*.zstd")) or "compression_format: zstd" in _metadata(folder):
            raise UsageError(f"unpack the bag first (ros2 bag convert); it was compressed by rosbag2: {folder}")
        if not any(folder.glob("*.db3")) and any(folder.glob("*.mcap")):
            return McapSource(folder, clocks=clocks, times=times)
    return Rosbag2Source(folder, clocks=clocks, times=times)


def _metadata(folder: Path) -> str:
    path = folder / "metadata.yaml"
    return path.read_text(errors="replace")[: 1 << 20] if path.is_file() else ""


def _open(path: Path) -> sqlite3.Connection:
    with path.open("rb") as file:
        begin = file.read(len(MAGIC))
    if begin != MAGIC:
        raise FormatError("a ROS 2 bag is an SQLite file", field="magic", offset=0, found=begin, expected=MAGIC,
                          path=str(path))  # fmt: skip
    bag = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    bag.row_factory = sqlite3.Row
    bag.text_factory = lambda text: text.decode("utf-8", "replace")
    return bag


def _definitions(bag: sqlite3.Connection) -> dict[str, tuple[str, bytes]]:
    try:
        rows = bag.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
        return {name: (encoding, str(text).encode()) for name, encoding, text in rows}
    except _UNREADABLE:
        return {}


def _standard_definition(name: str) -> tuple[str, bytes]:
    try:
        from rosbags.typesys import Stores, get_typestore

        text, _ = get_typestore(Stores.LATEST).generate_msgdef(name)
    except Exception:  # rosbags is absent, or does not know the type
        return "", b""
    return "ros2msg", text.encode()
