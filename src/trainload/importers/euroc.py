"""EuRoC MAV in ASL layout: mav0/<sensor>/data.csv with ns times, pictures in data/, calibration in sensor.yaml.

Source: Burri et al., "The EuRoC micro aerial vehicle datasets", IJRR 2016. All sensors share one hardware clock.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from trainload.errors import UsageError
from trainload.importers.asl_yaml import calibration_from_yaml
from trainload.importers.columns import Column, ColumnSource, file_loader, file_stream, need_folder, row_loader
from trainload.importers.source import Damage, SourceStream

_TIME_SOURCE = "data.csv, first column"
_KIND = {"imu": "imu", "cam": "camera", "leica": "position", "vicon": "pose", "state": "ground truth"}


def open_euroc(path: str | Path) -> ColumnSource:
    """A sequence: the folder `mav0`, or the one that holds it."""
    root = need_folder(path, "an ASL sequence (mav0)")
    root = root / "mav0" if (root / "mav0").is_dir() else root
    source = ColumnSource([])
    for folder in sorted(child for child in root.iterdir() if (child / "data.csv").is_file()):
        column = _column(folder, source.damage)
        if column is not None:
            source.columns.append(column)
    if not source.columns:
        raise UsageError(f"no sensor with a data.csv lies in {root}")
    return source


def _column(folder: Path, damage: Damage) -> Column | None:
    with (folder / "data.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    header = [name.strip() for name in lines[0]] if lines else []
    times, rows = [], []
    for number, line in enumerate(lines[1:], 2):
        try:
            if len(line) != len(header):
                raise ValueError(f"{len(line)} columns where the header has {len(header)}")
            time, row = int(line[0]), [word.strip() for word in line[1:]]
            rows.append(row if (folder / "data").is_dir() else [float(word) for word in row])
            times.append(time)
        except ValueError as error:
            damage.add(f"{folder.name}/data.csv line {number}: {error}", frames=1)
    if not rows:
        return None
    kind = next((kind for prefix, kind in _KIND.items() if folder.name.startswith(prefix)), "generic")
    calibration = calibration_from_yaml(folder / "sensor.yaml", damage)
    stamps = np.array(times, np.int64)
    if (folder / "data").is_dir():
        files = [folder / "data" / Path(str(row[0])).name for row in rows]
        stream = file_stream(
            folder.name, files, clock="hardware", time_source=_TIME_SOURCE, kind=kind, calibration=calibration
        )
        return Column(stream, stamps, file_loader(files))
    dtype = np.dtype([(name.split(" [")[0], "<f8") for name in header[1:]])
    stream = SourceStream(
        folder.name, kind, dtype=dtype, time_source=_TIME_SOURCE, packed=True,
        calibration={**calibration, "columns": header[1:]},
    )  # fmt: skip
    return Column(stream, stamps, row_loader(np.array([tuple(row) for row in rows], dtype)))
