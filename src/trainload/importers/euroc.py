"""EuRoC MAV in ASL layout: mav0/<sensor>/data.csv with ns times, pictures in data/, calibration in sensor.yaml.

Source: Burri et al., "The EuRoC micro aerial vehicle datasets", IJRR 2016. All sensors share one hardware clock.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainload.errors import UsageError
from trainload.importers.asl_yaml import calibration_from_yaml
from trainload.importers.columns import Column, ColumnSource, file_loader, file_stream, need_folder, row_loader
from trainload.importers.csv_rows import number_rows, read_header, text_rows
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
    table = folder / "data.csv"
    header, first = read_header(table)
    if not first:
        return None
    kind = next((kind for prefix, kind in _KIND.items() if folder.name.startswith(prefix)), "generic")
    calibration = calibration_from_yaml(folder / "sensor.yaml", damage)
    if (folder / "data").is_dir():
        times, rows = text_rows(table, 0, int, damage)
        files = [folder / "data" / Path(row[1]).name for row in rows]
        stream = file_stream(
            folder.name, files, clock="hardware", time_source=_TIME_SOURCE, kind=kind, calibration=calibration
        )
        return Column(stream, times, file_loader(files))
    times, values = number_rows(table, 0, int, damage)
    stream = SourceStream(
        folder.name, kind, dtype=np.dtype([(name.split(" [")[0], "<f8") for name in header[1:]]),
        time_source=_TIME_SOURCE, packed=True, calibration={**calibration, "columns": header[1:]},
    )  # fmt: skip
    return Column(stream, times, row_loader(values))
