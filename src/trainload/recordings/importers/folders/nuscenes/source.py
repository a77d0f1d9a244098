"""nuScenes: samples/ and sweeps/ by sensor channel, microseconds in the file names; v1.0-*/ tables and can_bus/ if any.

Names are LOG__CHANNEL__MICROSECONDS.ext. Lidar records are float32 x, y, z, intensity, ring. The tables become streams
in streams.py, the CAN bus in can.py. Source: Caesar et al., CVPR 2020, and the devkit's schema.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.recordings.importers.columns import Column, ColumnSource, file_loader, file_stream, need_folder
from trainload.recordings.importers.file_list import FileList, NameArray, all_files
from trainload.recordings.importers.folders.nuscenes.can import can_columns
from trainload.recordings.importers.folders.nuscenes.streams import table_columns
from trainload.recordings.importers.folders.nuscenes.tables import DriveTables, calibrations_without_drive
from trainload.recordings.importers.rows.json import json_rows
from trainload.recordings.importers.source import Damage

_NAME = re.compile(r"(?P<log>.+)__(?P<channel>[A-Z][A-Z0-9_]*?)__(?P<time>\d{10,16})\.(?:jpg|png|pcd\.bin|pcd)")
_MAX_LOGS_NAMED = 100


def open_nuscenes(path: str | Path, *, log: str | None = None) -> ColumnSource:
    """The drive called `log`, or the only one there is. Raises UsageError, with the names, where there are several."""
    root = need_folder(path, "nuScenes files (LOG__CHANNEL__TIME.jpg)")
    found = _find_files(root, log)
    source = ColumnSource([])
    chosen, tables = found.log, _tables_of(root, found.log, source)
    calibrations = tables.calibrations if tables else _calibrations(root, source)
    channels = {channel: files.sorted(root) for channel, files in sorted(found.channels.items())}
    source.columns += [_column(channel, *files, calibrations) for channel, files in channels.items()]
    if tables is not None:
        _compare_files(source, tables, [files for files, _ in channels.values()])
        source.columns += table_columns(root, tables, source)
        source.columns += can_columns(root, tables, source)
    elif (root / "can_bus").is_dir():
        source.notes.append("can_bus was left out: no table says which of its scenes belong to this drive")
    taken = {"can_bus", *(folder.name for folder in root.glob("v1.0-*")), *(tables.label_folders if tables else ())}
    others = [f"{top} ({count:,} files)" for top, count in sorted(found.others.items()) if top not in taken]
    if others:
        source.notes.append(f"left out, no part of drive {chosen}: {', '.join(others)}")
    return source


@dataclass(slots=True)
class _ChannelFiles:
    names: NameArray = field(default_factory=NameArray)
    times: array[int] = field(default_factory=lambda: array("q"))

    def sorted(self, root: Path) -> tuple[FileList, NDArray[np.int64]]:
        """By time, then by name."""
        names, times = self.names.array(), np.array(self.times, np.int64)
        order = np.lexsort((names, times))
        return FileList(root, names[order]), times[order]


@dataclass(slots=True)
class _Found:
    """The files of one drive by channel; others: how many other files each folder of the root has."""

    log: str = ""
    channels: dict[str, _ChannelFiles] = field(default_factory=lambda: defaultdict(_ChannelFiles))
    others: Counter[str] = field(default_factory=Counter)


def _find_files(root: Path, log: str | None) -> _Found:
    found = _Found(log or "")
    logs: set[str] = set()
    for path in all_files(root):
        name = _NAME.fullmatch(path.rpartition("/")[2])
        if name is None:
            found.others[path.partition("/")[0]] += 1
            continue
        logs.add(name["log"])
        found.log = found.log or name["log"]
        if name["log"] == found.log:
            files = found.channels[name["channel"]]
            files.names.append(path)
            files.times.append(int(name["time"]) * 1000)
    if not logs:
        raise UsageError(f"no file named LOG__CHANNEL__TIME lies under {root}")
    named = ", ".join(sorted(logs)[:_MAX_LOGS_NAMED])
    if log is None and len(logs) > 1:
        raise UsageError(f"{root} holds several drives; name one with log=: {named}")
    if found.log not in logs:
        raise UsageError(f"no drive is called {found.log!r}; there are {named}")
    return found


def _tables_of(root: Path, log: str, source: ColumnSource) -> DriveTables | None:
    """What the tables say of the drive. Of several folders of tables that know it, the last by name (trainval)."""
    folders = [folder for folder in sorted(root.glob("v1.0-*")) if folder.is_dir()]
    knowing = [
        folder
        for folder in folders
        if any(
            isinstance(row.value, dict) and row.value.get("logfile") == log
            for row in json_rows(folder / "log.json", Damage())
        )
    ]
    if not knowing:
        why = "the tables do not know this drive" if folders else "there are no v1.0-* tables"
        source.notes.append(f"{why}: no ego poses, annotations and key frames")
        return None
    if len(knowing) > 1:
        source.notes.append(f"of the tables that know this drive, {knowing[-1].name} were used")
    tables = DriveTables(knowing[-1], log, source.damage)
    source.notes += tables.notes
    return tables


def _calibrations(root: Path, source: ColumnSource) -> dict[str, dict[str, Any]]:
    folders = sorted(root.glob("v1.0-*"))
    found = calibrations_without_drive(folders[0], source.damage) if len(folders) == 1 else {}
    if not found:
        source.notes.append("no v1.0-* tables, or more than one calibration per channel: none was imported")
    return found


def _column(channel: str, files: FileList, times: NDArray[np.int64], calibrations: dict[str, dict[str, Any]]) -> Column:
    sensor, _, place = channel.lower().partition("_")
    kind = {"cam": "camera"}.get(sensor, sensor)
    more: dict[str, Any] = {"kind": kind, "calibration": {"channel": channel, **calibrations.get(channel, {})}}
    record_bytes = 1
    if kind == "lidar":
        more |= {"encoding": "raw", "dtype": np.dtype("<f4"), "shape": (-1, 5)}
        more["calibration"]["columns"] = ["x", "y", "z", "intensity", "ring"]
        record_bytes = 20
    name = f"{kind}/{place}" if place else kind
    stream = file_stream(name, files.extension, clock="hardware", time_source="file name, microseconds", **more)
    return Column(stream, times, file_loader(files.path, record_bytes=record_bytes))


def _compare_files(source: ColumnSource, tables: DriveTables, channels: list[FileList]) -> None:
    """Count the files that sample_data names and that are not there; say how many are there that it does not name."""
    listed = tables.file_names
    there = np.concatenate([_base_names(files) for files in channels])
    missing = listed[~np.isin(listed, there)]
    if len(missing):
        first = missing[0].decode(errors="replace")
        reason = f"{len(missing):,} files that sample_data.json names are not there, the first is {first}"
        source.damage.add(reason, frames=len(missing))
    unlisted = int((~np.isin(there, listed)).sum())
    if unlisted:
        source.notes.append(f"{unlisted:,} files have no row in sample_data.json; their names gave their times")


def _base_names(files: FileList) -> NDArray[np.bytes_]:
    found = NameArray()
    for name in files.names:
        found.append(name.rpartition(b"/")[2].decode("utf-8", "surrogateescape"))
    return found.array()
