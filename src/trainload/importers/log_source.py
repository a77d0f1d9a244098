"""What the sources of logs share: their files, one or the splits of a folder, and how their messages become streams."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from trainload.errors import UsageError
from trainload.importers.source import Channel, Damage
from trainload.importers.topics import TopicStreams


class LogSource:
    """The files of one log, and what is kept while they are read; a format adds `survey` and `items`.

    clocks, times: see TopicStreams. `_before` counts the bytes of the files that were read, `_place` those of the one
    that is being read.
    """

    PATTERN: ClassVar[str]
    MAGIC: ClassVar[bytes]

    def __init__(self, path: str | Path, *, clocks: Mapping[str, str] | None = None, times: str = "stamp") -> None:
        self.damage = Damage()
        self.channels: list[Channel] = []
        self.notes: list[str] = []
        self._clocks = clocks
        self._times = times
        self._paths = log_files(path, self.PATTERN, self.MAGIC, self.damage)
        self._sizes = [file.stat().st_size for file in self._paths]
        self._before = 0

    def progress(self) -> tuple[int, int]:
        """Bytes of the files."""
        return self._before + self._place(), sum(self._sizes)

    def _place(self) -> int:
        return 0

    def _topics(self) -> TopicStreams:
        """For a new pass over the files."""
        self._before = 0
        return TopicStreams(self.channels, self.damage, self._clocks, times=self._times)


def log_files(path: str | Path, pattern: str, magic: bytes, damage: Damage) -> list[Path]:
    """The file at `path`, or the files of the folder there that begin with `magic`; others count as damage.

    A single file that begins otherwise is for its reader to refuse. Raises UsageError where there is no file.
    """
    found = Path(path)
    files = [found] if found.is_file() else _in_order(found, pattern)
    if not files:
        raise UsageError(f"no {pattern} lies at {found}")
    if len(files) == 1:
        return files
    good = [file for file in files if _begins_with(file, magic)]
    for file in files:
        if file not in good:
            damage.add(f"{file} does not begin as a {pattern} does", size_bytes=file.stat().st_size)
    return good or files[:1]


def _in_order(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda file: (len(file.name), file.name))


def _begins_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(magic)) == magic
