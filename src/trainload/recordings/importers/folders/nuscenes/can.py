"""The CAN bus expansion of nuScenes: can_bus/<scene>_<message>.json, a JSON array of messages with `utime` in us.

Source: python-sdk/nuscenes/can_bus/README.md of the nuscenes-devkit. `utime` is the time of the measurement, except for
the two messages of the car (zoesensors, zoe_veh_info), which only have the time of their receipt.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from pathlib import Path

import numpy as np

from trainload.recordings.format.envelopes import IMPORT_PREFIX
from trainload.recordings.importers.columns import Column, ColumnSource
from trainload.recordings.importers.folders.nuscenes.tables import DriveTables, TableRows
from trainload.recordings.importers.rows.json import json_rows
from trainload.recordings.importers.source import SourceStream

_HOST_STAMPED = ("zoesensors", "zoe_veh_info")
_TIMELESS = ("meta", "route")
_MAX_FILE_BYTES = 64 << 20


def can_columns(root: Path, tables: DriveTables, source: ColumnSource) -> list[Column]:
    """A stream per message, its frames the messages as JSON; meta and route, without times, one frame per scene.

    can_bus lies in the data set's folder or beside it.
    """
    folder = next((place / "can_bus" for place in (root, root.parent) if (place / "can_bus").is_dir()), None)
    if folder is None:
        return []
    files: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    without = set(tables.scenes)
    for path in sorted(folder.glob("*.json")):
        scene, _, message = path.stem.partition("_")
        if scene in tables.scenes:
            files[message].append((scene, path))
            without.discard(scene)
    if without:
        source.notes.append(f"no CAN bus of {', '.join(sorted(without))}")
    return [
        _whole_files(message, found, tables, source) if message in _TIMELESS else _messages(message, found, source)
        for message, found in sorted(files.items())
    ]


def _messages(message: str, files: list[tuple[str, Path]], source: ColumnSource) -> Column:
    parts = [_rows(path, source) for _, path in files]
    bounds = np.cumsum([0, *(len(rows) for rows in parts)])

    def load(index: int) -> bytes:
        place = int(np.searchsorted(bounds, index, side="right")) - 1
        return parts[place].text(index - int(bounds[place]))

    clock = "host" if message in _HOST_STAMPED else "hardware"
    said = "utime, when it was received" if clock == "host" else "utime, when it was measured"
    stream = SourceStream(f"can_bus/{message}", "can", "json", clock=clock, time_source=said)
    return Column(stream, np.concatenate([rows.times for rows in parts]), load)


def _rows(path: Path, source: ColumnSource) -> TableRows:
    rows = TableRows(path)
    for row in json_rows(path, source.damage):
        try:
            rows.add(row, int(row.value["utime"]) * 1000)
        except (KeyError, TypeError, ValueError, OverflowError):
            source.damage.add(f"{path.name}: a message without utime at byte {row.offset:,}", frames=1)
    return rows


def _whole_files(message: str, files: list[tuple[str, Path]], tables: DriveTables, source: ColumnSource) -> Column:
    times, paths = array("q"), []
    for scene, path in files:
        size = path.stat().st_size
        if 0 < size <= _MAX_FILE_BYTES:
            times.append(tables.scenes[scene])
            paths.append(path)
        else:
            source.damage.add(f"{path.name}: {size:,} bytes", frames=1, size_bytes=size)
    stream = SourceStream(
        f"{IMPORT_PREFIX}can_bus/{message}",
        "can",
        "json",
        clock="host",
        time_source="first sample of the scene: no time of its own",
    )
    return Column(stream, np.array(times, np.int64), lambda index: paths[index].read_bytes())
