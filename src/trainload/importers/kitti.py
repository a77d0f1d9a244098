"""KITTI raw: image_0N/data/*.png, velodyne_points/data/*.bin, oxts/data/*.txt, each with timestamps.txt.

Source: the raw data development kit (Geiger et al., IJRR 2013). Velodyne records are float32 x, y, z, reflectance;
timestamps_start.txt and timestamps_end.txt bound each sweep.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.importers.columns import Column, ColumnSource, file_loader, file_stream, need_folder, row_loader
from trainload.importers.source import Damage, SourceStream

_PERIOD_NS = 100_000_000  # the recordings run at 10 Hz
# fmt: off
_OXTS = (
    "lat", "lon", "alt", "roll", "pitch", "yaw", "vn", "ve", "vf", "vl", "vu", "ax", "ay", "az", "af", "al", "au",
    "wx", "wy", "wz", "wf", "wl", "wu",
    "pos_accuracy", "vel_accuracy", "navstat", "numsats", "posmode", "velmode", "orimode",
)
# fmt: on
OXTS_DTYPE = np.dtype([(name, "<f8") for name in _OXTS])


def open_kitti(path: str | Path) -> ColumnSource:
    """One drive, its folder or the folder above (..._sync or ..._extract). Without timestamp files: frame numbers."""
    root = need_folder(path, "KITTI raw sensors (image_02, velodyne_points, oxts)")
    source = ColumnSource([])
    for folder in sorted(child for child in root.iterdir() if (child / "data").is_dir()):
        files = sorted(file for file in (folder / "data").iterdir() if file.is_file() and file.stem.isdigit())
        if files:
            source.columns.append(_column(folder, files, source))
    if not source.columns:
        raise UsageError(f"no KITTI raw sensor (a folder with data/0000000000.*) lies in {root}")
    return source


def _column(folder: Path, files: list[Path], source: ColumnSource) -> Column:
    frames = np.array([int(file.stem) for file in files])
    times, end, time_source = _times(folder, frames, source.notes)
    known = times >= 0
    if not known.all():
        source.damage.add(f"{folder.name}: {int((~known).sum())} files have no timestamp", frames=int((~known).sum()))
        files = [file for file, good in zip(files, known) if good]
        times, end = times[known], None if end is None else end[known]
    clock = "hardware" if time_source.startswith("timestamps") else "host"
    if folder.name == "oxts":
        rows, times = _oxts_rows(files, times, source.damage)
        stream = SourceStream("oxts", "ins", dtype=OXTS_DTYPE, clock=clock, time_source=time_source, packed=True)
        return Column(stream, times, row_loader(rows))
    if files and files[0].suffix == ".bin":
        stream = file_stream(
            "velodyne", files, clock=clock, time_source=time_source, encoding="raw", dtype=np.dtype("<f4"),
            shape=(-1, 4), calibration={"columns": ["x", "y", "z", "reflectance"]},
        )  # fmt: skip
        return Column(stream, times, file_loader(files, record_bytes=16), None if end is None else end - times)
    return Column(file_stream(folder.name, files, clock=clock, time_source=time_source), times, file_loader(files))


def _times(
    folder: Path, frames: NDArray[np.int64], notes: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None, str]:
    """Times of the frames (-1: none), ends of sweeps where known, and where they come from."""
    start, end = folder / "timestamps_start.txt", folder / "timestamps_end.txt"
    if start.is_file() and end.is_file():
        return _lines(start, frames), _lines(end, frames), "timestamps_start.txt"
    if (folder / "timestamps.txt").is_file():
        return _lines(folder / "timestamps.txt", frames), None, "timestamps.txt"
    notes.append(f"{folder.name} has no timestamps.txt: times are frame number x 100 ms, no clock measured them")
    return frames * _PERIOD_NS, None, "frame number at 10 Hz"


def _lines(path: Path, frames: NDArray[np.int64]) -> NDArray[np.int64]:
    times = [_time_ns(line) for line in path.read_text().splitlines()]
    return np.array([times[frame] if frame < len(times) else -1 for frame in frames.tolist()], np.int64)


def _time_ns(line: str) -> int:
    """ "2011-09-26 13:02:25.964389445" in UTC as ns, -1 for a line that is no time."""
    whole, _, fraction = line.strip().partition(".")
    try:
        seconds = datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()
        return int(seconds) * 1_000_000_000 + int((fraction + "0" * 9)[:9])
    except ValueError:
        return -1


def _oxts_rows(
    files: list[Path], times: NDArray[np.int64], damage: Damage
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    rows, kept = [], []
    for file, time in zip(files, times):
        try:
            rows.append(tuple(float(word) for word in file.read_text().split()))
            if len(rows[-1]) != len(_OXTS):
                raise ValueError(f"{len(rows.pop())} numbers where {len(_OXTS)} are expected")
            kept.append(time)
        except (OSError, ValueError) as error:
            damage.add(f"oxts {file.name}: {error}", frames=1)
    return np.array(rows, OXTS_DTYPE), np.array(kept, np.int64)
