"""KITTI raw: image_0N/data/*.png, velodyne_points/data/*.bin, oxts/data/*.txt, each with timestamps.txt.

Source: the raw data development kit (Geiger et al., IJRR 2013). Velodyne records are float32 x, y, z, reflectance;
timestamps_start.txt and timestamps_end.txt bound each sweep. Calibration: calibration.py.
"""

from __future__ import annotations

import re
import struct
from array import array
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.recordings.format.field_rules import FieldRules
from trainload.recordings.format.hyperframe import MAX_TIMESTAMP_NS
from trainload.recordings.importers.attached import attached_column, first_time
from trainload.recordings.importers.columns import (
    Column,
    ColumnSource,
    file_loader,
    file_stream,
    need_folder,
    row_loader,
)
from trainload.recordings.importers.file_list import FileList, listed_files
from trainload.recordings.importers.folders.kitti.calibration import FILES, OXTS_RULES, kitti_calibration, oxts_fields
from trainload.recordings.importers.source import SourceStream
from trainload.storage.file import FileSource

_NUMBERED = re.compile(r"[0-9]{1,10}\.")
_PERIOD_NS = 100_000_000  # the recordings run at 10 Hz
_TRACKLETS = "tracklet_labels.xml"
_MAX_OXTS_BYTES = 1 << 16

Times = NDArray[np.int64]


def open_kitti(path: str | Path) -> ColumnSource:
    """One drive, its folder or the folder above (..._sync or ..._extract). Without timestamp files: frame numbers."""
    root = _drive(need_folder(path, "KITTI raw sensors (image_02, velodyne_points, oxts)"))
    source = ColumnSource([])
    for folder in _sensors(root):
        files = listed_files(folder / "data", _is_numbered)
        others = listed_files(folder / "data", lambda name: not _is_numbered(name))
        if len(others):
            reason = f"{folder.name}: {len(others):,} files without a frame number, the first is {others.name(0)}"
            source.damage.add(reason, frames=len(others))
        if len(files):
            _add_sensor(source, folder, files)
        else:
            source.notes.append(f"{folder.name} was left out: no file lies in its data")
    if not source.columns:
        raise UsageError(f"no KITTI raw sensor (a folder with data/0000000000.*) lies in {root}")
    _add_tracklets(source, root / _TRACKLETS)
    left_out = sorted(
        child.name for child in root.iterdir() if child.is_file() and child.name not in (_TRACKLETS, *FILES)
    )
    if left_out:
        source.notes.append(f"left out: {', '.join(left_out)}")
    return source


def _drive(root: Path) -> Path:
    """The folder with the sensors. Raises UsageError where the folder below holds several drives."""
    drives = [child for child in sorted(root.iterdir()) if child.is_dir() and _sensors(child)]
    if _sensors(root) or not drives:
        return root
    if len(drives) > 1:
        raise UsageError(f"{root} holds several drives; name one: {', '.join(drive.name for drive in drives)}")
    return drives[0]


def _sensors(root: Path) -> list[Path]:
    return sorted(child for child in root.iterdir() if (child / "data").is_dir())


def _is_numbered(name: str) -> bool:
    return _NUMBERED.match(name) is not None


def _add_sensor(source: ColumnSource, folder: Path, files: FileList) -> None:
    frames = np.array([int(name.partition(b".")[0]) for name in files.names], np.int64)
    times, end, time_source = _times(folder, frames, source)
    known = times >= 0
    if not known.all():
        source.damage.add(f"{folder.name}: {int((~known).sum())} files have no timestamp", frames=int((~known).sum()))
        files, frames, times, end = files.take(known), frames[known], times[known], None if end is None else end[known]
    calibration = {"frames": _runs(frames), **kitti_calibration(folder, source)}
    about: dict[str, Any] = {
        "clock": "hardware" if time_source.startswith("timestamps") else "host",
        "time_source": time_source,
        "calibration": calibration,
    }
    if folder.name == "oxts":
        source.columns.append(_oxts(folder, files, times, about))
    elif files.extension == ".bin" or folder.name == "velodyne_points":
        durations = None if end is None else np.where(end >= times, end - times, 0)
        source.columns.append(_velodyne(files, times, durations, about))
        if end is not None and (folder / "timestamps.txt").is_file():
            source.columns.append(_triggers(folder, frames, about))
    else:
        stream = file_stream(folder.name, files.extension, **about)
        source.columns.append(Column(stream, times, file_loader(files.path)))


def _velodyne(files: FileList, times: Times, durations: Times | None, about: dict[str, Any]) -> Column:
    """The scanner: float32 records, in ..._extract drives written as text with three decimals."""
    about["calibration"] |= {"columns": ["x", "y", "z", "reflectance"], "written_as": files.extension.lstrip(".")}
    stream = file_stream(
        "velodyne", files.extension, kind="lidar", encoding="raw", dtype=np.dtype("<f4"), shape=(-1, 4), **about
    )
    as_text = file_loader(files.path)

    def load_text(index: int) -> bytes:
        words = as_text(index).split()
        if len(words) % 4:
            raise ValueError(f"{len(words):,} numbers are no points of four: {files.path(index)}")
        return np.array(words, np.bytes_).astype("<f4").tobytes()

    load = file_loader(files.path, record_bytes=16) if files.extension == ".bin" else load_text
    return Column(stream, times, load, durations)


def _oxts(folder: Path, files: FileList, times: Times, about: dict[str, Any]) -> Column:
    """The inertial navigation: a record of numbers per file."""
    fields = oxts_fields(folder / "dataformat.txt")
    about["calibration"]["columns"] = fields
    layout = struct.Struct(f"<{len(fields)}d")

    def load(index: int) -> bytes:
        with FileSource(files.path(index)) as file:
            words = file.read_at(0, min(file.size, _MAX_OXTS_BYTES)).split()
        if len(words) != len(fields):
            raise ValueError(f"{len(words)} numbers where {len(fields)} are expected: {files.path(index)}")
        return layout.pack(*map(float, words))

    dtype = np.dtype([(name, "<f8") for name in fields])
    rules: FieldRules = {name: rule for name, rule in OXTS_RULES.items() if name in fields}
    return Column(SourceStream("oxts", "ins", dtype=dtype, packed=True, fields=rules, **about), times, load)


def _triggers(folder: Path, frames: NDArray[np.int64], about: dict[str, Any]) -> Column:
    """When the scanner looked ahead and triggered the cameras: the frame number at the time in timestamps.txt."""
    times = _lines(folder / "timestamps.txt", frames)
    rows = frames[times >= 0].astype([("frame", "<u4")])
    stream = SourceStream(
        "velodyne/trigger", "trigger", dtype=rows.dtype, clock=about["clock"], time_source="timestamps.txt", packed=True
    )
    return Column(stream, times[times >= 0], row_loader(rows))


def _add_tracklets(source: ColumnSource, path: Path) -> None:
    """The labels of the drive as they are; their schema is boost's serialization, and how many there are is counted."""
    if not path.is_file():
        return
    tracklets = poses = 0
    last = b""
    with path.open("rb") as file:
        for line in file:
            tracklets += line.count(b"<objectType>")
            poses += line.count(b"<tx>")
            last = line.strip() or last
    if not last.endswith(b"</boost_serialization>"):
        source.damage.add(f"{path.name} ends early, after {tracklets:,} tracklets")
    facts = {"tracklets": tracklets, "poses": poses, "schema": "boost serialization of the KITTI raw development kit"}
    time = first_time(source.columns)
    source.columns.append(attached_column("tracklets", path, time, kind="labels", encoding="xml", calibration=facts))
    source.notes.append(
        f"{tracklets:,} tracklets with {poses:,} poses are kept as the XML they are in, in import/tracklets"
    )


def _times(folder: Path, frames: NDArray[np.int64], source: ColumnSource) -> tuple[Times, Times | None, str]:
    """Times of the frames (-1: none), ends of sweeps where known, and where they come from."""
    start, end = folder / "timestamps_start.txt", folder / "timestamps_end.txt"
    both = start.is_file() and end.is_file()
    list_path = start if both else folder / "timestamps.txt"
    if not list_path.is_file():
        source.notes.append(
            f"{folder.name} has no timestamps.txt: times are frame number x 100 ms, no clock measured them"
        )
        return frames * _PERIOD_NS, None, "frame number at 10 Hz"
    times = _all_lines(list_path)
    missing = np.setdiff1d(np.flatnonzero(times >= 0), frames)
    if len(missing):
        reason = (
            f"{folder.name}: {len(missing):,} frames of {list_path.name} have no file, the first is {missing[0]:010}"
        )
        source.damage.add(reason, frames=len(missing))
    ends = _of_frames(_all_lines(end), frames) if both else None
    return _of_frames(times, frames), ends, list_path.name


def _lines(path: Path, frames: NDArray[np.int64]) -> Times:
    return _of_frames(_all_lines(path), frames)


def _of_frames(times: Times, frames: NDArray[np.int64]) -> Times:
    there = frames < len(times)
    return np.where(there, times[np.where(there, frames, 0)], -1) if len(times) else np.full(len(frames), -1)


def _all_lines(path: Path) -> Times:
    with path.open(errors="replace") as file:
        return np.array(array("q", map(_time_ns, file)), np.int64)


def _time_ns(line: str) -> int:
    """ "2011-09-26 13:02:25.964389445" in UTC as ns, -1 for a line that is no time, or one that 63 bits
    do not hold."""
    whole, _, fraction = line.strip().partition(".")
    try:
        seconds = datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()
        time_ns = int(seconds) * 1_000_000_000 + int((fraction + "0" * 9)[:9])
    except (ValueError, OverflowError):
        return -1
    return time_ns if 0 <= time_ns <= MAX_TIMESTAMP_NS else -1


def _runs(frames: NDArray[np.int64]) -> list[list[int]]:
    """The frame numbers as [first, last] of every run: what a gap in the drive hides from the count of frames."""
    starts = np.flatnonzero(np.diff(frames, prepend=frames[:1] - 2) != 1)
    ends = np.append(starts[1:], len(frames)) - 1
    return np.stack([frames[starts], frames[ends]], axis=1).tolist() if len(frames) else []
