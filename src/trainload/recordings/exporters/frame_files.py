"""A recording as a folder that any program can read: one folder of frames, or one table, per stream.

`<stream>/<time>.jpg`, `.png`, `.npy` (typed payloads) or `.bin`; `<stream>/frames.csv` lists times, numbers and files.
A packed stream becomes `<stream>.csv`, one line per sample. `recording.json` keeps the stream table and META.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainload.formats.progress import Progress
from trainload.recordings.format.hyperframe import MAX_TIMESTAMP_NS
from trainload.recordings.format.layouts import without_gaps
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.frame import Frame
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.storage.folders import AtomicFolder

_SUFFIXES = {"jpeg": ".jpg", "jpg": ".jpg", "png": ".png"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_COLUMNS = ("timestamp_ns", "stream_index", "flags", "receive_ns", "duration_ns", "file")


@dataclass(frozen=True, slots=True)
class ExtractSummary:
    """What was written: the folder, frames per stream, bytes in all."""

    path: str
    frames: dict[str, int]
    bytes: int

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} of {name}" for name, count in self.frames.items())
        return f"{self.path}: frames {counts}; {self.bytes:,} bytes of payload"


def extract_frames(
    recording: HyperframeReader,
    folder: str | os.PathLike[str],
    *,
    start_ns: int | str | None = None,
    end_ns: int | str | None = None,
    streams: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> ExtractSummary:
    """Write the frames with start_ns <= time < end_ns of the named streams (all, where left out) under `folder`.

    The folder has its name only when it is whole. progress: gets frames.
    Raises UsageError for an unknown stream and a folder that is not empty; FormatError for a damaged frame;
    OSError from the system.
    """
    names = list(recording.streams) if streams is None else list(dict.fromkeys(streams))
    first, last = (None if time is None else recording.time_ns(time) for time in (start_ns, end_ns))
    spans = {name: _span(recording, name, first, last) for name in names}
    paths = stream_paths([recording.streams[name] for name in names])
    with AtomicFolder(folder) as target:
        size = _write_streams(recording, spans, paths, target.tmp_path, progress)
        _write_table(recording, paths, target.tmp_path)
        target.commit()
    return ExtractSummary(os.fspath(folder), {name: last - first for name, (first, last) in spans.items()}, size)


def _write_streams(
    recording: HyperframeReader,
    spans: dict[str, tuple[int, int]],
    paths: dict[str, Path],
    root: Path,
    progress: Progress | None,
) -> int:
    """Write the rows `spans` of each stream below `root`; bytes of their payloads."""
    total, done, size = sum(last - first for first, last in spans.values()), 0, 0
    for name, (first, last) in spans.items():
        writer = _TableWriter if recording.streams[name].packed else _FolderWriter
        with writer(root / paths[name], recording, name, first) as out:
            for frame in recording.iter_positions(name, first, last):
                size += out.write(frame)
                done += 1
                if progress is not None:
                    progress(done, total)
    return size


def _span(recording: HyperframeReader, name: str, start_ns: int | None, end_ns: int | None) -> tuple[int, int]:
    times = recording.timestamps(name)
    first = 0 if start_ns is None else int(times.searchsorted(min(start_ns, MAX_TIMESTAMP_NS)))
    last = len(times) if end_ns is None else int(times.searchsorted(min(end_ns, MAX_TIMESTAMP_NS)))
    return first, max(first, last)


def stream_paths(infos: Sequence[StreamInfo]) -> dict[str, Path]:
    """Where each stream goes, relative to the folder: its name, slashes as folders, odd characters as "_".

    Names come from the file: none can lead out of the folder, and no two streams meet.
    """
    paths: dict[str, Path] = {}
    for info in infos:
        parts = [_UNSAFE.sub("_", part) for part in info.name.split("/")]
        parts = [part for part in parts if part.strip(".")] or ["stream"]
        path = Path(*parts)
        paths[info.name] = path.with_name(f"{path.name}_{info.id}") if path in paths.values() else path
    return paths


class _FolderWriter:
    """One file per frame, and frames.csv."""

    def __init__(self, path: Path, recording: HyperframeReader, name: str, first: int) -> None:
        info = recording.streams[name]
        self._folder = path
        self._folder.mkdir(parents=True, exist_ok=True)
        self._receive, self._duration = recording.receive_times(name), recording.durations(name)
        self._position = first
        self._suffix = _SUFFIXES.get(info.encoding.lower(), ".bin") if info.is_opaque else ".npy"
        self._file = (self._folder / "frames.csv").open("x", newline="")
        self._csv = csv.writer(self._file)
        self._csv.writerow(_COLUMNS)
        self._last = ""

    def write(self, frame: Frame) -> int:
        """Write one frame; bytes of its payload."""
        stem = f"{frame.timestamp_ns:019d}"
        if stem == self._last:  # equal times: the number tells the frames apart
            stem += f"_{frame.stream_index}_{self._position}"
        else:
            self._last = stem
        path = self._folder / (stem + self._suffix)
        if self._suffix == ".npy":
            with path.open("xb") as file:
                np.save(file, frame.array(), allow_pickle=False)
        else:
            path.write_bytes(frame.data)
        extra = [0 if column is None else int(column[self._position]) for column in (self._receive, self._duration)]
        self._csv.writerow([frame.timestamp_ns, frame.stream_index, frame.flags, *extra, path.name])
        self._position += 1
        return len(frame.data)

    def __enter__(self) -> _FolderWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _TableWriter:
    """A packed stream as CSV: one line per sample, one column per number; `name.0`, `name.1`, ... for arrays."""

    def __init__(self, path: Path, recording: HyperframeReader, name: str, _first: int) -> None:
        info = recording.streams[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.with_name(path.name + ".csv").open("x", newline="")
        self._csv = csv.writer(self._file)
        if info.dtype is not None:
            self._csv.writerow(_columns(without_gaps(np.empty(0, info.dtype)).dtype))

    def write(self, frame: Frame) -> int:
        """Write the samples of one payload; bytes of the payload."""
        self._csv.writerows(_flat(sample) for sample in frame.array())
        return len(frame.data)

    def __enter__(self) -> _TableWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _columns(dtype: np.dtype[Any]) -> list[str]:
    columns: list[str] = []
    for name in dtype.names or ("value",):
        size = int(np.prod(dtype[name].shape, dtype=np.int64)) if dtype.names else 1
        columns += [name] if size == 1 else [f"{name}.{n}" for n in range(size)]
    return columns


def _flat(sample: Any) -> list[Any]:
    values: list[Any] = []
    for value in sample.item() if sample.dtype.names else (sample,):
        values += np.asarray(value).ravel().tolist() if isinstance(value, np.ndarray) else [value]
    return values


def _write_table(recording: HyperframeReader, paths: dict[str, Path], target: Path) -> None:
    table: dict[str, Any] = {
        "streams": [{**recording.streams[name].to_json(), "path": path.as_posix()} for name, path in paths.items()],
        "meta": recording.meta,
    }
    (target / "recording.json").write_text(json.dumps(table, indent=1))
