"""ROS 2 bags: a file, or a bag folder with its splits, in SQLite; bags of MCAP files go to the MCAP importer.

Bags that rosbag2 compressed, whole files or message by message, are unpacked as they are read. Bags older than 2023
carry no message definitions; where `rosbags` (extra `robotics`) is installed, its definitions of the standard types
stand in and are marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.recordings.importers.logs.channel_numbers import ChannelNumbers
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.logs.mcap.structure import MAGIC as MCAP_MAGIC
from trainload.recordings.importers.logs.plain_files import plain_head
from trainload.recordings.importers.logs.rosbag2.database import MAGIC, UNREADABLE, BagDatabase, page_bytes
from trainload.recordings.importers.logs.rosbag2.metadata import BagMetadata
from trainload.recordings.importers.logs.source import LogSource, named_files
from trainload.recordings.importers.logs.topics import MAX_MESSAGE_BYTES, LogMessage, TopicStreams
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream, Span

_TOPIC_COLUMNS = {"id", "name", "type", "serialization_format"}


class Rosbag2Source(LogSource):
    """The messages of one bag. counts: how many its metadata.yaml says each file has."""

    PATTERN, MAGIC = "*.db3", MAGIC
    _bytes_read = 0.0  # of the file that is being read

    def __init__(self, path: str | Path, *, counts: Mapping[str, int] | None = None, **options: Any) -> None:
        super().__init__(path, **options)
        self._counts = counts or {}

    def survey(self) -> dict[str, Span]:
        """By one pass over the rows, without the messages in them."""
        spans: dict[str, Span] = {}
        for path in self._paths:
            with self._open(path, Damage()) as bag:
                for topic, span in _spans(bag).items():
                    spans[topic] = span.joined(spans.get(topic))
        return spans

    def _read(self, topics: TopicStreams) -> Iterator[SourceStream | SourceFrame]:
        for path, size in zip(self._paths, self._sizes):
            known = -self.damage.frames
            with self._open(path, self.damage) as bag:
                numbers = self._channels(bag)
                last = max(bag.last_id(), self._counts.get(_name(path), 0), 1)
                for row in bag.rows("topic_id, timestamp, data", self.damage):
                    self._bytes_read = min(row["id"] / last, 1.0) * size
                    message = self._message(row, bag.name, numbers)
                    if message is not None:
                        known += 1
                        yield from topics.items(message)
                if bag.damaged:
                    self._count_missing(path, known + self.damage.frames)
            self._before, self._bytes_read = self._before + size, 0.0

    def _place(self) -> int:
        return int(self._bytes_read)

    def _open(self, path: Path, damage: Damage) -> BagDatabase:
        unit = page_bytes(plain_head(path, 32))  # SQLite takes what is missing of a page for zeros
        return BagDatabase(self._files.whole_units(path, unit, damage), str(path))

    def _count_missing(self, path: Path, known: int) -> None:
        """Of a file found damaged, what metadata.yaml counts beyond the messages that were read or counted as lost."""
        missing = self._counts.get(_name(path), 0) - known
        if missing > 0:
            self.damage.add(f"{path}: {missing:,} more of the messages that metadata.yaml counts", frames=missing)

    def _channels(self, bag: BagDatabase) -> ChannelNumbers:
        numbers = ChannelNumbers(self.channels, self.damage, bag.name, "topic")
        definitions = bag.definitions()
        try:
            rows = bag.topics()
        except UNREADABLE as error:
            self.damage.add(f"{bag.name}: its topics cannot be read: {error}")
            return numbers
        for row in rows:
            if not row.keys() >= _TOPIC_COLUMNS:
                missing = ", ".join(sorted(_TOPIC_COLUMNS - row.keys()))
                self.damage.add(f"{bag.name}: the table of topics has no {missing}")
                return numbers
            encoding, definition = definitions.get(row["type"]) or _standard_definition(row["type"])
            keys = ("offered_qos_profiles", "type_description_hash")
            metadata = {key: str(row[key]) for key in keys if key in row}
            if encoding and row["type"] not in definitions:
                metadata["definition"] = "by rosbags, not in the bag"
            channel = Channel(
                str(row["name"]), str(row["type"]), str(row["serialization_format"]), encoding, definition, metadata
            )
            numbers.add(row["id"], channel)
        return numbers

    def _message(self, row: Any, name: str, numbers: ChannelNumbers) -> LogMessage | None:
        data, time, topic = row["data"], row["timestamp"], row["topic_id"]
        if not isinstance(data, bytes) or not isinstance(time, int) or time < 0 or len(data) > MAX_MESSAGE_BYTES:
            self.damage.add(f"{name}: message {row['id']} is no message", frames=1)
            return None
        return LogMessage(numbers.place(topic), time, time, 0, memoryview(data))


def open_rosbag2(
    path: str | Path,
    *,
    clocks: Mapping[str, str] | None = None,
    times: str | None = None,
    scratch: str | Path | None = None,
) -> Rosbag2Source | McapSource:
    """The bag at `path`: what lies there decides how it is read, metadata.yaml only what that leaves open.

    scratch: the folder for what a compressed file unpacks to. Raises UsageError where no bag lies there.
    """
    place = Path(path)
    about = BagMetadata.of(place if place.is_dir() else place.parent)
    options: dict[str, Any] = {
        "clocks": clocks,
        "times": times,
        "scratch": scratch,
        "packed_messages": about.mode == "message",
    }
    source: Rosbag2Source | McapSource
    if _is_mcap(place, about):
        source = McapSource(place, **options)
    else:
        source = Rosbag2Source(place, counts=about.messages, **options)
    if about.mode == "message" and about.compression not in ("", "zstd"):
        source.notes.append(f"messages are compressed by {about.compression}, which is not unpacked: kept as bytes")
    return source


def _is_mcap(place: Path, about: BagMetadata) -> bool:
    if place.is_file():
        return plain_head(place, len(MCAP_MAGIC)) == MCAP_MAGIC
    databases, logs = (named_files(place, f"*.{suffix}") for suffix in ("db3", "mcap"))
    if not databases and not logs and any(place.glob("*.db3.*")):
        raise UsageError(f"bags are unpacked from zstd alone; unpack this one first (ros2 bag convert): {place}")
    return bool(logs) and (not databases or about.storage == "mcap")


def _name(path: Path) -> str:
    return path.name.removesuffix(".zstd")


def _spans(bag: BagDatabase) -> dict[str, Span]:
    """Per topic's name."""
    spans: dict[int, Span] = {}
    for _, topic, time in bag.rows("topic_id, timestamp", Damage()):
        if isinstance(time, int):
            spans[topic] = Span(1, time, time).joined(spans.get(topic))
    try:
        names = {row["id"]: str(row["name"]) for row in bag.topics()}
    except (KeyError, *UNREADABLE):
        names = {}
    return {names.get(number, f"topic_{number}"): span for number, span in spans.items()}


def _standard_definition(name: str) -> tuple[str, bytes]:
    try:
        from rosbags.typesys import Stores, get_typestore

        text, _ = get_typestore(Stores.LATEST).generate_msgdef(name)
    except Exception:  # rosbags is absent, or does not know the type
        return "", b""
    return "ros2msg", text.encode()
