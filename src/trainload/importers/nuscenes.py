"""nuScenes: samples/ and sweeps/ by sensor channel, microseconds in the file names; v1.0-*/ tables if any.

Names are LOG__CHANNEL__MICROSECONDS.ext. Lidar records are float32 x, y, z, intensity, ring. Source: Caesar et al.,
CVPR 2020, and the nuscenes-devkit schema.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from trainload.errors import UsageError
from trainload.importers.columns import Column, ColumnSource, file_loader, file_stream, need_folder

_NAME = re.compile(r"(?P<log>.+)__(?P<channel>[A-Z][A-Z0-9_]*?)__(?P<time>\d{10,19})\.(?:jpg|png|pcd\.bin|pcd)")
_MAX_TABLE_BYTES = 256 << 20
_CALIBRATION = ("translation", "rotation", "camera_intrinsic")


def open_nuscenes(path: str | Path, *, log: str | None = None) -> ColumnSource:
    """The drive called `log`, or the only one there is. Raises UsageError, with the names, where there are several."""
    root = need_folder(path, "nuScenes files (LOG__CHANNEL__TIME.jpg)")
    found: dict[str, dict[str, list[tuple[int, Path]]]] = defaultdict(lambda: defaultdict(list))
    for file in root.rglob("*__*"):
        name = _NAME.fullmatch(file.name)
        if name is not None:
            found[name["log"]][name["channel"]].append((int(name["time"]) * 1000, file))
    if not found:
        raise UsageError(f"no file named LOG__CHANNEL__TIME lies under {root}")
    if log is None and len(found) > 1:
        raise UsageError(f"{root} holds several drives; name one with log=: {', '.join(sorted(found))}")
    chosen = log if log is not None else next(iter(found))
    if chosen not in found:
        raise UsageError(f"no drive is called {chosen!r}; there are {', '.join(sorted(found))}")
    calibrations = _calibrations(root)
    columns = [_column(channel, sorted(files), calibrations) for channel, files in sorted(found[chosen].items())]
    notes = [] if calibrations else ["no v1.0-* tables, or more than one calibration per channel: none was imported"]
    return ColumnSource(columns, notes)


def _column(channel: str, stamped: list[tuple[int, Path]], calibrations: dict[str, dict[str, Any]]) -> Column:
    files = [file for _, file in stamped]
    times = np.array([time for time, _ in stamped], np.int64)
    sensor, _, place = channel.lower().partition("_")
    kind = {"cam": "camera"}.get(sensor, sensor)
    more: dict[str, Any] = {"kind": kind, "calibration": dict(calibrations.get(channel, {}))}
    record_bytes = 1
    if kind == "lidar":
        more |= {"encoding": "raw", "dtype": np.dtype("<f4"), "shape": (-1, 5)}
        more["calibration"]["columns"] = ["x", "y", "z", "intensity", "ring"]
        record_bytes = 20
    stream = file_stream(
        f"{kind}/{place}", files[0].suffix, clock="hardware", time_source="file name, microseconds", **more
    )
    return Column(stream, times, file_loader(lambda k: files[k], record_bytes=record_bytes))


def _calibrations(root: Path) -> dict[str, dict[str, Any]]:
    """Calibration per channel where the tables have exactly one for it."""
    tables = sorted(root.glob("v1.0-*"))
    if len(tables) != 1:
        return {}
    sensors = {row["token"]: row["channel"] for row in _table(tables[0] / "sensor.json")}
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _table(tables[0] / "calibrated_sensor.json"):
        kept: dict[str, Any] = {key: row[key] for key in _CALIBRATION if key in row}
        if row.get("sensor_token") in sensors and kept not in found[sensors[row["sensor_token"]]]:
            found[sensors[row["sensor_token"]]].append(kept)
    return {channel: rows[0] for channel, rows in found.items() if len(rows) == 1}


def _table(path: Path) -> list[dict[str, Any]]:
    if not path.is_file() or path.stat().st_size > _MAX_TABLE_BYTES:
        return []
    try:
        rows = json.loads(path.read_text())
    except ValueError as error:
        raise UsageError(f"a nuScenes table is no JSON: {error}: {path}") from error
    return [row for row in rows if isinstance(row, dict)]
