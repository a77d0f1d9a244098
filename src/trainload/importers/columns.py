"""A Source made of columns: per stream its times and a way to get payload i. Folders and arrays become this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.importers.source import Channel, Damage, SourceFrame, SourceStream, Span

_MAX_FRAME_BYTES = (1 << 32) - 1
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


@dataclass(slots=True)
class ColumnSource:
    """Columns merged by time. A payload that cannot be read is counted as damage and left out."""

    columns: list[Column]
    notes: list[str] = field(default_factory=list)
    damage: Damage = field(default_factory=Damage)
    channels: list[Channel] = field(default_factory=list)
    _done: int = 0

    def survey(self) -> dict[str, Span]:
        """From the times alone."""
        return {
            column.stream.name: Span(len(column.times), int(column.times.min()), int(column.times.max()))
            for column in self.columns
            if len(column.times)
        }

    def items(self) -> Iterator[SourceStream | SourceFrame]:
        """All streams, then all frames in time order; of equal times, the earlier column first."""
        self._done = 0
        yield from (column.stream for column in self.columns)
        which = np.repeat(np.arange(len(self.columns), dtype=np.int32), [len(column.times) for column in self.columns])
        row = np.concatenate([np.arange(len(c.times)) for c in self.columns] or [np.empty(0, np.int64)])
        times = np.concatenate([column.times for column in self.columns] or [np.empty(0, np.int64)])
        for place in np.argsort(times, kind="stable"):
            column, index = self.columns[which[place]], int(row[place])
            self._done += 1
            try:
                data = column.load(index)
            except (OSError, ValueError) as error:
                self.damage.add(f"{column.stream.name} frame {index}: {error}", frames=1)
                continue
            duration = 0 if column.durations is None else int(column.durations[index])
            key = column.keys is None or bool(column.keys[index])
            yield SourceFrame(column.stream.name, int(times[place]), data, 0, duration, key_frame=key)

    def progress(self) -> tuple[int, int]:
        return self._done, sum(len(column.times) for column in self.columns)


def file_loader(paths: list[Path], *, record_bytes: int = 1) -> Callable[[int], bytes]:
    """Payload i is file i, whole. An empty file, or one that is not a whole number of records, is a ValueError."""

    def load(index: int) -> bytes:
        size = paths[index].stat().st_size
        if not 0 < size <= _MAX_FRAME_BYTES or size % record_bytes:
            raise ValueError(f"{size:,} bytes cannot be a frame of {record_bytes}-byte records: {paths[index]}")
        return paths[index].read_bytes()

    return load


def row_loader(rows: NDArray[Any]) -> Callable[[int], bytes]:
    """Payload i is row i of an array."""
    return lambda index: rows[index].tobytes()


def file_stream(name: str, paths: list[Path], *, clock: str, time_source: str, **more: Any) -> SourceStream:
    """The stream of a folder of files; kind and encoding follow from their extension unless given."""
    extension = paths[0].suffix.lower() if paths else ""
    more.setdefault("kind", _KINDS.get(extension, "generic"))
    more.setdefault("encoding", _ENCODINGS.get(extension, extension.lstrip(".") or "raw"))
    return SourceStream(name, clock=clock, time_source=time_source, **more)


def seconds_to_ns(text: str) -> int:
    """Exact ns of decimal seconds: "1305031102.175304" has more digits than a float keeps. Raises ValueError."""
    whole, _, fraction = text.strip().partition(".")
    if not whole.lstrip("-").isdigit() or (fraction and not fraction.isdigit()):
        from decimal import Decimal, InvalidOperation

        try:
            return int((Decimal(text.strip()) * 1_000_000_000).to_integral_value())
        except (InvalidOperation, OverflowError) as error:
            raise ValueError(f"no time in seconds: {text!r}") from error
    nanoseconds = int((fraction + "0" * 9)[:9])
    return int(whole) * 1_000_000_000 + (-nanoseconds if whole.startswith("-") else nanoseconds)


def need_folder(path: str | Path, holds: str) -> Path:
    """The folder at `path`. Raises UsageError, saying what it should hold, where there is none."""
    folder = Path(path)
    if not folder.is_dir():
        raise UsageError(f"expected a folder of {holds}, found none at {folder}")
    return folder
