"""The nuScenes tables of one drive: which rows belong to it, and where each lies in its file.

Tables of the whole data set have gigabytes, so each is read once, row by row, and of the rows of the drive only the
time and the place are kept. Source: docs/schema_nuscenes.md of the nuscenes-devkit.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format.hyperframe import MAX_TIMESTAMP_NS
from trainload.recordings.importers.file_blocks import BlockReader
from trainload.recordings.importers.file_list import NameArray, Names
from trainload.recordings.importers.rows.json import JsonRow, json_rows
from trainload.recordings.importers.source import Damage

Row = dict[str, Any]
_EGO_FIELDS = {"token", "timestamp", "translation", "rotation"}
_READ_FOR_THE_DRIVE = (
    "log",
    "scene",
    "sample",
    "sample_data",
    "ego_pose",
    "sample_annotation",
    "instance",
    "map",
    "sensor",
    "calibrated_sensor",
)
_DESCRIPTIONS = ("category", "attribute", "visibility")
_TEXTS = ("token", "name", "channel", "filename", "logfile")  # and every key that ends in _token, if it is not null
_LISTS = ("attribute_tokens", "log_tokens")
_NUMBERS = ("width", "height", "num_lidar_pts", "num_radar_pts")
_BAD_ROW = (KeyError, TypeError, ValueError, OverflowError, AttributeError)


class TableRows:
    """Rows of a JSON file: the time (ns) and the place of each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._times, self._offsets, self._sizes = array("q"), array("q"), array("q")
        self._reader = BlockReader(path)

    def __len__(self) -> int:
        return len(self._times)

    @property
    def times(self) -> NDArray[np.int64]:
        return np.array(self._times, np.int64)

    def add(self, row: JsonRow, time_ns: int) -> None:
        self._times.append(time_ns)
        self._offsets.append(row.offset)
        self._sizes.append(row.size)

    def text(self, index: int) -> bytes:
        """Row `index` as the file has it."""
        return self._reader.read_at(self._offsets[index], self._sizes[index])

    def value(self, index: int) -> Row:
        row: Row = json.loads(self.text(index))
        return row


class DriveTables:
    """What the tables in `folder` say of the drive called `log`.

    rows: by table, the rows of the drive. samples: token to ns. scenes: name to the ns of its first sample.
    instances: token to the position of its category. calibrations: by channel. file_names: S[n], of every sample_data.
    label_folders: where the files lie that later tables name.
    """

    def __init__(self, folder: Path, log: str, damage: Damage) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self.rows: dict[str, TableRows] = {}
        self.label_folders: set[str] = set()
        self._damage = damage
        self._others: Counter[str] = Counter()
        self._read_samples(log)
        self._read_sample_data()
        self._read_ego_poses()
        self._read_annotations()
        self._read_calibrations()
        self._read_other_tables()
        self._sample_data.clear()
        self._poses.clear()
        if self._others:
            listed = ", ".join(f"{count:,} of {table}" for table, count in sorted(self._others.items()))
            self.notes.append(f"table rows that belong to other drives were left out: {listed}")

    def _read_samples(self, log: str) -> None:
        logs: set[str] = set()
        self._select("log", lambda row: _keep_if(row["logfile"] == log, logs, row["token"]))
        scenes: dict[str, str] = {}

        def scene(row: Row) -> int | None:
            if row["log_token"] not in logs:
                return None
            scenes[row["token"]] = row["name"]
            return 0

        self._select("scene", scene)
        self.samples: dict[str, int] = {}
        self.scenes: dict[str, int] = {}

        def sample(row: Row) -> int | None:
            name = scenes.get(row["scene_token"])
            if name is None:
                return None
            time = self.samples[row["token"]] = _ns(row)
            self.scenes[name] = min(time, self.scenes.get(name, time))
            return time

        self._select("sample", sample)
        self._maps_of = logs

    def _read_sample_data(self) -> None:
        self._sample_data: dict[str, int] = {}
        self._poses: set[str] = set()
        self._calibrated: set[str] = set()
        names = NameArray()
        known = (*_READ_FOR_THE_DRIVE, *_DESCRIPTIONS)
        has_labels = any(path.stem not in known for path in self.folder.glob("*.json"))

        def sample_data(row: Row) -> int | None:
            if row["sample_token"] not in self.samples:
                return None
            time = _ns(row)
            token, pose = row["token"], row["ego_pose_token"]
            if has_labels:
                self._sample_data[token] = time
            self._poses.add(token if pose == token else pose)  # mostly the same: one text for both
            self._calibrated.add(row["calibrated_sensor_token"])
            names.append(row["filename"].rpartition("/")[2])
            return time

        self._select("sample_data", sample_data)
        self.file_names: Names = names.array()

    def _read_ego_poses(self) -> None:
        others: set[str] = set()

        def ego_pose(row: Row) -> int | None:
            if row["token"] not in self._poses:
                return None
            others.update(row.keys() - _EGO_FIELDS)
            _vector(row["translation"], 3), _vector(row["rotation"], 4)
            return _ns(row)

        missing = len(self._poses) - self._select("ego_pose", ego_pose)
        if missing > 0:
            self._damage.add(f"{missing:,} ego poses that sample_data.json names are not in the table", frames=missing)
        if others:
            self.notes.append(f"fields of ego_pose.json that were left out: {', '.join(sorted(others))}")

    def _read_annotations(self) -> None:
        instances: set[str] = set()

        def annotation(row: Row) -> int | None:
            time = self.samples.get(row["sample_token"])
            if time is not None:
                instances.add(row["instance_token"])
                _vector(row["translation"], 3), _vector(row["size"], 3), _vector(row["rotation"], 4)
            return time

        self._select("sample_annotation", annotation)
        self.categories = list(_objects(self.folder / "category.json", self._damage))
        places = {row.get("token"): place for place, row in enumerate(self.categories)}
        self.instances: dict[str, int] = {}

        def instance(row: Row) -> int | None:
            if row["token"] not in instances:
                return None
            self.instances[row["token"]] = places.get(row["category_token"], -1)
            return 0

        self._select("instance", instance)

    def _read_calibrations(self) -> None:
        sensors = {row.get("token"): row for row in _objects(self.folder / "sensor.json", self._damage)}
        found: dict[str, list[Row]] = defaultdict(list)
        used: set[str] = set()

        def calibrated_sensor(row: Row) -> int | None:
            if row["token"] not in self._calibrated:
                return None
            used.add(row["sensor_token"])
            found[sensors[row["sensor_token"]]["channel"]].append(row)
            return 0

        self._select("calibrated_sensor", calibrated_sensor)
        self._select("sensor", lambda row: 0 if row["token"] in used else None)
        self.calibrations = {channel: self._calibration(channel, rows) for channel, rows in found.items()}

    def _calibration(self, channel: str, rows: list[Row]) -> Row:
        """The values that all rows of a channel have, each scene having a row of its own; else the rows."""
        values = [{key: value for key, value in row.items() if key != "token"} for row in rows]
        tokens = [row["token"] for row in rows]
        if all(value == values[0] for value in values):
            return {**values[0], "tokens": tokens}
        self.notes.append(f"{channel} has {len(rows)} calibrations in this drive; sample_data/rows says which applies")
        return {"calibrated_sensors": rows}

    def _read_other_tables(self) -> None:
        """Maps of the log, descriptions, and tables that came later: rows that point at the drive, or at nothing."""
        self._select("map", lambda row: 0 if self._maps_of & set(row["log_tokens"]) else None)

        def other(row: Row) -> int | None:
            if "sample_data_token" in row:
                return self._sample_data.get(row["sample_data_token"])
            if "sample_token" in row:
                return self.samples.get(row["sample_token"])
            return 0

        for path in sorted(self.folder.glob("*.json")):
            if path.stem not in _READ_FOR_THE_DRIVE:
                self._select(path.stem, other)

    def _select(self, table: str, want: Callable[[Row], int | None]) -> int:
        """Keep the rows of a table for which `want` gives a time (0: none of its own). How many these are."""
        path = self.folder / f"{table}.json"
        rows = self.rows[table] = TableRows(path)
        if not path.is_file():
            del self.rows[table]
            self.notes.append(f"there is no {path.name}")
            return 0
        for row in json_rows(path, self._damage):
            try:
                time = want(checked_row(row.value))
                if time is None:
                    self._others[table] += 1
                else:
                    rows.add(row, time)
            except _BAD_ROW as error:
                what = f"{type(error).__name__} {error}"
                self._damage.add(f"{path.name}: no row of this table at byte {row.offset:,}: {what}", frames=1)
        return len(rows)


def calibrations_without_drive(folder: Path, damage: Damage) -> dict[str, Row]:
    """Calibration per channel where the tables have exactly one for it: for tables that know no drive."""
    sensors = {row.get("token"): row for row in _objects(folder / "sensor.json", damage)}
    found: dict[str, list[Row]] = defaultdict(list)
    for row in _objects(folder / "calibrated_sensor.json", damage):
        sensor = sensors.get(row.get("sensor_token"), {})
        kept = {key: value for key, value in row.items() if key != "token"}
        if "channel" in sensor and kept not in found[sensor["channel"]]:
            found[sensor["channel"]].append(kept)
    return {channel: rows[0] for channel, rows in found.items() if len(rows) == 1}


def _objects(path: Path, damage: Damage) -> Iterator[Row]:
    for row in json_rows(path, damage):
        try:
            yield checked_row(row.value)
        except TypeError as error:
            damage.add(f"{path.name}: no row of this table at byte {row.offset:,}: {error}", frames=1)


def checked_row(value: Any) -> Row:
    """The row, whose names, references and counts are what they should be. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError("no object")
    for key, found in value.items():
        if key in _TEXTS or (key.endswith("_token") and found is not None):
            good = isinstance(found, str)
        elif key in _LISTS:
            good = isinstance(found, list) and all(isinstance(token, str) for token in found)
        else:
            good = key not in _NUMBERS or found is None or (type(found) is int and -1 <= found < 1 << 31)
        if not good:
            raise TypeError(f"{key} is {str(found)[:40]!r}")
    return value


def _keep_if(wanted: bool, tokens: set[str], token: str) -> int | None:
    if not wanted:
        return None
    tokens.add(token)
    return 0


def _ns(row: Row) -> int:
    """The time of a row, in its unit of microseconds, as ns."""
    time = row["timestamp"]
    if not isinstance(time, int) or isinstance(time, bool):
        raise ValueError(f"{time!r} is no whole number of microseconds")
    if abs(time) > MAX_TIMESTAMP_NS // 1000:
        raise ValueError(f"the time {str(time)[:40]} us does not fit")
    return time * 1000


def _vector(value: Any, count: int) -> list[float]:
    numbers = [float(number) for number in value]
    if len(numbers) != count:
        raise ValueError(f"{len(numbers)} numbers where {count} are expected")
    return numbers
