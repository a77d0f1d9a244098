"""EuRoC MAV in ASL layout: mav0/<sensor>/data.csv with ns times, pictures in data/, calibration in sensor.yaml.

Ground truth (state_groundtruth_estimate0, leica0, vicon0) is a sensor as any other. Source: Burri et al., "The EuRoC
micro aerial vehicle datasets", IJRR 2016. All sensors share one hardware clock.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.recordings.format.field_rules import FieldRules
from trainload.recordings.importers.attached import attached_column, first_time
from trainload.recordings.importers.columns import (
    Column,
    ColumnSource,
    add_unlisted,
    file_loader,
    file_stream,
    need_folder,
)
from trainload.recordings.importers.file_list import NameArray, base_name, listed_files
from trainload.recordings.importers.folders.euroc.asl_yaml import calibration_from_yaml
from trainload.recordings.importers.rows.csv import (
    NumberColumns,
    Words,
    any_words,
    are_numbers,
    csv_rows,
    read_header,
    unique_names,
)
from trainload.recordings.importers.source import Damage, SourceStream
from trainload.recordings.importers.time_units import TimeUnit, unit_of_whole

_TIME_SOURCE = "data.csv, first column"  # nanoseconds
_KIND = {"imu": "imu", "cam": "camera", "leica": "position", "vicon": "pose", "state": "ground truth"}
_QUATERNION = re.compile(r"q_\w+_w")
_ATTACHED = ("data.ply", "body.yaml")


def open_euroc(path: str | Path) -> ColumnSource:
    """A sequence: the folder `mav0`, or the one that holds it."""
    root = need_folder(path, "an ASL sequence (mav0)")
    root = root / "mav0" if (root / "mav0").is_dir() else root
    source = ColumnSource([])
    folders = sorted(child for child in root.iterdir() if child.is_dir())
    for folder in folders:
        if (folder / "data.csv").is_file():
            column = _column(folder, source)
            if column is None:
                source.notes.append(f"{folder.name} was left out: its data.csv has no row that can be read")
            else:
                source.columns.append(column)
        elif (folder / "data").is_dir():
            count = len(listed_files(folder / "data"))
            source.damage.add(f"{folder.name}: {count:,} files, and no data.csv with their times", frames=count)
    if not source.columns:
        raise UsageError(f"no sensor with a data.csv lies in {root}")
    _attach_files(source, root, folders)
    return source


def _attach_files(source: ColumnSource, root: Path, folders: list[Path]) -> None:
    """The scan of the room (pointcloud0/data.ply) and body.yaml as they are; what else lies there is noted."""
    time = first_time(source.columns)
    for folder in [root, *folders]:
        names = {child.name for child in folder.iterdir() if child.is_file()}
        for name in sorted(names & set(_ATTACHED)):
            stream = "body.yaml" if folder == root else folder.name
            kind = "lidar" if name.endswith(".ply") else "calibration"
            calibration = calibration_from_yaml(folder / "sensor.yaml", source.damage)
            source.columns.append(
                attached_column(
                    stream, folder / name, time, kind=kind, encoding=name.rpartition(".")[2], calibration=calibration
                )
            )
        left_out = sorted(names - {"data.csv", "sensor.yaml", *_ATTACHED})
        if left_out:
            source.notes.append(f"left out of {folder.name}: {', '.join(left_out[:5])}, {len(left_out):,} files")


def _column(folder: Path, source: ColumnSource) -> Column | None:
    """The sensor's stream; None where its list has no row that can be read."""
    damage = source.damage
    header, first = read_header(folder / "data.csv")
    unit = unit_of_whole(first)
    if unit.why:
        source.notes.append(f"{folder.name}: {unit.why}")
    kind = next((kind for prefix, kind in _KIND.items() if folder.name.startswith(prefix)), "generic")
    calibration = calibration_from_yaml(folder / "sensor.yaml", damage)
    about: dict[str, Any] = {
        "kind": kind,
        "time_source": _time_source(unit),
        "calibration": {**calibration, "columns": header[1:]},
    }
    if (folder / "data").is_dir():
        column = _pictures(folder, unit, damage, about)
    elif are_numbers(first, range(1, len(header))):
        column = _numbers(folder, header, unit, damage, about)
    else:
        column = _texts(folder, header, unit, damage, about)
    return column if len(column.times) else None


def _time_source(unit: TimeUnit) -> str:
    return _TIME_SOURCE + (f", {unit.name}" if unit.why else "")


def _numbers(folder: Path, header: Words, unit: TimeUnit, damage: Damage, about: dict[str, Any]) -> Column:
    names = unique_names([name.split(" [")[0] for name in header[1:]])
    numbers = NumberColumns(names, range(1, len(header)))
    rows = csv_rows(folder / "data.csv", 0, unit.to_ns, damage, numbers.check)
    pack = numbers.packer()
    stream = SourceStream(folder.name, dtype=numbers.dtype, packed=True, fields=_quaternions(names), **about)
    return Column(stream, rows.times, lambda k: pack(rows.csv_words(k)))


def _quaternions(names: list[str]) -> FieldRules:
    """The orientations of an ASL list, whose columns are q_AB_w to q_AB_z: of frame B in frame A."""
    groups = [tuple(f"{name[:-1]}{part}" for part in "wxyz") for name in names if _QUATERNION.fullmatch(name)]
    return {group: "quaternion_wxyz" for group in groups if set(group) <= set(names)}


def _texts(folder: Path, header: Words, unit: TimeUnit, damage: Damage, about: dict[str, Any]) -> Column:
    rows = csv_rows(folder / "data.csv", 0, unit.to_ns, damage, any_words)
    names = unique_names(header)
    stream = SourceStream(folder.name, encoding="json", **about)
    return Column(stream, rows.times, lambda k: json.dumps(dict(zip(names, rows.csv_words(k)))).encode())


def _pictures(folder: Path, unit: TimeUnit, damage: Damage, about: dict[str, Any]) -> Column:
    listed = NameArray()
    rows = csv_rows(
        folder / "data.csv", 0, unit.to_ns, damage, lambda words: listed.append(base_name(words[1].strip()))
    )
    files = listed_files(folder / "data")
    add_unlisted(damage, folder.name, files, listed.array())
    stream = file_stream(folder.name, files.extension, clock="hardware", **about)
    return Column(stream, rows.times, file_loader(lambda k: f"{folder}/data/{base_name(rows.csv_words(k)[1])}"))
