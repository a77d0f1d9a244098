"""What the sources of logs share: their files, one or the splits of a folder, and how their messages become streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from trainload.errors import UsageError
from trainload.recordings.importers.logs.plain_files import PlainFiles, plain_head
from trainload.recordings.importers.logs.rosbag2.metadata import BagMetadata
from trainload.recordings.importers.logs.topics import TopicStreams
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream

ZSTD_SUFFIX = ".zstd"


class LogSource(ABC):
    """The files of one log, and what is kept while they are read; a format adds `survey` and `_read`.

    clocks, times: see TopicStreams; times is "stamp" unless given. meta: what an export of ours had in META. scratch:
    the folder for what a compressed file unpacks to. packed_messages: True where each message is a Zstandard frame.
    `_before` counts the bytes of the files that were read, `_place` those of the one that is being read.
    """

    PATTERN: ClassVar[str]
    MAGIC: ClassVar[bytes]

    def __init__(
        self,
        path: str | Path,
        *,
        clocks: Mapping[str, str] | None = None,
        times: str | None = None,
        scratch: str | Path | None = None,
        packed_messages: bool = False,
    ) -> None:
        self.damage = Damage()
        self.channels: list[Channel] = []
        self.notes: list[str] = []
        self._clocks = clocks
        self._times = times
        self.meta: Mapping[str, Any] = {}
        self._packed_messages = packed_messages
        self._paths = log_files(path, self.PATTERN, self.MAGIC, self.damage)
        self._count_missing_files(Path(path))
        self._sizes = [file.stat().st_size for file in self._paths]
        self._before = 0
        self._files = PlainFiles(scratch)

    def _count_missing_files(self, folder: Path) -> None:
        """Splits that the metadata.yaml of a ROS 2 bag names and that are not there."""
        if folder.is_dir():
            about = BagMetadata.of(folder)
            for name in about.missing(folder):
                frames = about.messages.get(name, 0)
                said = f" with its {frames:,} messages" if frames else ""
                self.damage.add(f"{folder / name} is not there{said}, though metadata.yaml names it", frames=frames)

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        """Every message in the order of the log."""
        self._before = 0
        topics = TopicStreams(
            self.channels,
            self.damage,
            self._clocks,
            times=self._times or "stamp",
            packed_messages=self._packed_messages,
        )
        try:
            yield from self._read(topics)
        finally:
            self._files.close()
        self.notes += topics.notes()

    def progress(self) -> tuple[int, int]:
        """Bytes of the files."""
        return self._before + self._place(), sum(self._sizes)

    @abstractmethod
    def _read(self, topics: TopicStreams) -> Iterator[SourceStream | SourceFrame]:
        """Every message of the files, through `topics`."""

    def _place(self) -> int:
        return 0


def log_files(path: str | Path, pattern: str, magic: bytes, damage: Damage) -> list[Path]:
    """The file at `path`, or the files of the folder there that begin with `magic`; others count as damage.

    A file may be compressed whole, with `.zstd` after its name. A single file that begins otherwise is for its reader
    to refuse. Raises UsageError where there is no file.
    """
    found = Path(path)
    files = [found] if found.is_file() else named_files(found, pattern)
    if not files:
        raise UsageError(f"no {pattern} lies at {found}")
    if len(files) == 1:
        return files
    good = [file for file in files if plain_head(file, len(magic)) == magic]
    for file in files:
        if file not in good:
            damage.add(f"{file} does not begin as a {pattern} does", size_bytes=file.stat().st_size)
    return good or files[:1]


def named_files(folder: Path, pattern: str) -> list[Path]:
    """The files of that pattern in the order of their numbers; where one is there plain and compressed, the plain."""
    plain = list(folder.glob(pattern))
    packed = [file for file in folder.glob(pattern + ZSTD_SUFFIX) if file.with_suffix("") not in plain]
    return sorted(plain + packed, key=lambda file: (len(_plain_name(file)), _plain_name(file)))


def _plain_name(file: Path) -> str:
    return file.name.removesuffix(ZSTD_SUFFIX)
