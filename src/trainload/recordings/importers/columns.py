"""A Source made of columns: per stream its times and a way to get payload i. Folders and arrays become this."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import FormatError, UsageError
from trainload.recordings.format.hyperframe import MAX_FRAME_BYTES
from trainload.recordings.importers.file_list import FileList, Names, extension_of
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream, Span
from trainload.recordings.importers.whole_pictures import what_is_missing
from trainload.storage.file import FileSource

_FEW = 10  # frames; below it a median says nothing
_PAUSES = 1.5  # times the median: a mean above it has pauses in it
_STEP = 4096  # times that are taken out of an array together
_KINDS = {".png": "camera", ".jpg": "camera", ".jpeg": "camera", ".bin": "lidar", ".pcd": "lidar"}
_ENCODINGS = {".jpg": "jpeg", ".jpeg": "jpeg", ".png": "png"}


@dataclass(slots=True)
class Column:
    """One stream: its times (int64[n] ns, any order), payload i by `load(i)`, and durations (int64[n] ns) if known.

    keys: bool[n], which frames are key frames; None: all.
    """

    stream: SourceStream
    times: NDArray[np.int64]
    load: Callable[[int], bytes]
    durations: NDArray[np.int64] | None = None
    keys: NDArray[np.bool_] | None = None

    def in_time_order(self, number: int) -> Iterator[tuple[int, int, int]]:
        """(time, number, index) of every frame; of equal times, the earlier index first."""
        ascending = bool((self.times[1:] >= self.times[:-1]).all())
        order = None if ascending else np.argsort(self.times, kind="stable")
        for start in range(0, len(self.times), _STEP):
            here = np.arange(start, min(start + _STEP, len(self.times))) if order is None else order[start:][:_STEP]
            for index, time in zip(here.tolist(), self.times[here].tolist()):
                yield time, number, index


@dataclass(slots=True)
class ColumnSource:
    """Columns merged by time. A payload that cannot be read is counted as damage and left out.

    Memory: the columns' times, and their order where it is not ascending.
    """

    columns: list[Column]
    notes: list[str] = field(default_factory=list)
    meta: Mapping[str, Any] = field(default_factory=dict)
    damage: Damage = field(default_factory=Damage)
    channels: list[Channel] = field(default_factory=list)
    _done: int = 0

    def survey(self) -> dict[str, Span]:
        """From the times alone."""
        return {column.stream.name: _span(column.times) for column in self.columns if len(column.times)}

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        """All streams, then all frames in time order; of equal times, the earlier column first."""
        self._done = 0
        yield from (column.stream for column in self.columns)
        for time, number, index in heapq.merge(*(c.in_time_order(k) for k, c in enumerate(self.columns))):
            column = self.columns[number]
            self._done += 1
            try:
                data = column.load(index)
            except (OSError, ValueError, FormatError) as error:
                self.damage.add(f"{column.stream.name} frame {index}: {error}", frames=1)
                continue
            duration = 0 if column.durations is None else int(column.durations[index])
            key = column.keys is None or bool(column.keys[index])
            yield SourceFrame(column.stream.name, time, data, 0, duration, key_frame=key)

    def progress(self) -> tuple[int, int]:
        return self._done, sum(len(column.times) for column in self.columns)


def _span(times: NDArray[np.int64]) -> Span:
    """A recording of several scenes has pauses; a median far below the mean says so, and is the period."""
    whole = Span(len(times), int(times.min()), int(times.max()))
    if len(times) < _FEW:
        return whole
    median = int(np.median(np.diff(np.sort(times))))
    return whole._replace(usual_ns=median) if median and whole.period_ns > _PAUSES * median else whole


def file_loader(path_of: Callable[[int], str], *, record_bytes: int = 1) -> Callable[[int], bytes]:
    """Payload i is the file at `path_of(i)`, whole.

    A ValueError: a file that is empty or no whole number of records, a JPEG or PNG that was not written to its end.
    """

    def load(index: int) -> bytes:
        path = path_of(index)
        with FileSource(path) as file:
            if not 0 < file.size <= MAX_FRAME_BYTES or file.size % record_bytes:
                raise ValueError(f"{file.size:,} bytes cannot be a frame of {record_bytes}-byte records: {path}")
            data = file.read_at(0, file.size)
        missing = what_is_missing(extension_of(path), data)
        if missing:
            raise ValueError(f"{missing}: {path}")
        return data

    return load


def row_loader(rows: NDArray[Any]) -> Callable[[int], bytes]:
    """Payload i is row i of an array."""
    return lambda index: rows[index].tobytes()


def file_stream(name: str, extension: str, *, clock: str, time_source: str, **more: Any) -> SourceStream:
    """The stream of a folder of files; kind and encoding follow from their extension (".png") unless given."""
    more.setdefault("kind", _KINDS.get(extension, "generic"))
    more.setdefault("encoding", _ENCODINGS.get(extension, extension.lstrip(".") or "raw"))
    return SourceStream(name, clock=clock, time_source=time_source, **more)


def add_unlisted(damage: Damage, what: str, files: FileList, listed: Names) -> None:
    """Count the files of a sensor that its list of times does not name."""
    known = np.isin(files.names, listed)
    if not known.all():
        first = files.take(~known).name(0)
        count = int((~known).sum())
        damage.add(f"{what}: {count:,} files have no time in the list, the first is {first}", frames=count)


def seconds_to_ns(text: str) -> int:
    """Exact ns of decimal seconds: "1305031102.175304" has more digits than a float keeps. Raises ValueError."""
    whole, _, fraction = text.strip().partition(".")
    if not whole.lstrip("-").isdigit() or (fraction and not fraction.isdigit()):
        from decimal import Decimal

        try:
            seconds = Decimal(text.strip())
            if not abs(seconds) < 1 << 63:  # also a NaN: before an integer of a million digits is made of it
                raise ValueError(f"no time in seconds: {text[:40]!r}")
            return int((seconds * 1_000_000_000).to_integral_value())
        except ArithmeticError as error:
            raise ValueError(f"no time in seconds: {text!r}") from error
    nanoseconds = int((fraction + "0" * 9)[:9])
    return int(whole) * 1_000_000_000 + (-nanoseconds if whole.startswith("-") else nanoseconds)


def need_folder(path: str | Path, holds: str) -> Path:
    """The folder at `path`. Raises UsageError, saying what it should hold, where there is none."""
    folder = Path(path)
    if not folder.is_dir():
        raise UsageError(f"expected a folder of {holds}, found none at {folder}")
    return folder
