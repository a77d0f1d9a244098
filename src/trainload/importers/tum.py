"""TUM RGB-D: rgb.txt, depth.txt (time, file), accelerometer.txt, groundtruth.txt (time, numbers); seconds in decimals.

Source: Sturm et al., "A benchmark for the evaluation of RGB-D SLAM systems", IROS 2012. Picture times are those of the
host's driver; the ground truth comes from the motion-capture system, brought to the same clock by the authors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainload.errors import UsageError
from trainload.importers.columns import (
    Column,
    ColumnSource,
    file_loader,
    file_stream,
    need_folder,
    row_loader,
    seconds_to_ns,
)
from trainload.importers.source import Damage, SourceStream

_NUMBERS = {
    "accelerometer": ("imu", ("ax", "ay", "az")),
    "groundtruth": ("pose", ("tx", "ty", "tz", "qx", "qy", "qz", "qw")),
}


def open_tum(path: str | Path) -> ColumnSource:
    """A sequence folder."""
    root = need_folder(path, "a TUM sequence (rgb.txt, depth.txt, groundtruth.txt)")
    source = ColumnSource([])
    for list_path in sorted(root.glob("*.txt")):
        if list_path.stem in _NUMBERS:
            source.columns.append(_numbers(list_path, source.damage))
        elif (root / list_path.stem).is_dir():
            source.columns.append(_files(root, list_path, source.damage))
    if not source.columns:
        raise UsageError(f"no list of a TUM sequence (rgb.txt with a folder rgb, ...) lies in {root}")
    return source


def _files(root: Path, list_path: Path, damage: Damage) -> Column:
    rows = _rows(list_path, 2, damage)
    files = [root / list_path.stem / Path(words[1]).name for _, words in rows]
    stream = file_stream(list_path.stem, files, clock="host", time_source=f"{list_path.name}, stamped by the driver")
    return Column(stream, np.array([time for time, _ in rows], np.int64), file_loader(files))


def _numbers(list_path: Path, damage: Damage) -> Column:
    kind, names = _NUMBERS[list_path.stem]
    dtype = np.dtype([(name, "<f8") for name in names])
    times, values = [], []
    for time, words in _rows(list_path, len(names) + 1, damage):
        try:
            values.append(tuple(float(word) for word in words[1:]))
            times.append(time)
        except ValueError as error:
            damage.add(f"{list_path.name}: {error}", frames=1)
    stream = SourceStream(
        list_path.stem,
        kind,
        dtype=dtype,
        clock="host",
        time_source=f"{list_path.name}, on the host's clock",
        packed=True,
    )
    return Column(stream, np.array(times, np.int64), row_loader(np.array(values, dtype)))


def _rows(path: Path, columns: int, damage: Damage) -> list[tuple[int, list[str]]]:
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            if len(words) != columns:
                raise ValueError(f"{len(words)} words where {columns} are expected")
            rows.append((seconds_to_ns(words[0]), words))
        except ValueError as error:
            damage.add(f"{path.name} line {number}: {error}", frames=1)
    return rows
