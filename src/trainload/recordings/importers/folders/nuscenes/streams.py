"""Streams of the nuScenes tables: ego poses, key frames, boxes, and every row of the drive as it is written.

| stream | frames | payload |
|---|---|---|
| ego_pose | one per row | token, translation, rotation_wxyz |
| sample_data | one per row | channel, key_frame, width, height, token, sample_token |
| annotations | one per sample | its boxes, BOX_DTYPE |
| sample/rows, sample_data/rows | one per row | the row, JSON |
| annotations/rows | one per sample | the rows of its boxes, in the order of the boxes, a JSON array |
| import/tables | one per row | {"table": ..., "row": ...}: scenes, instances, sensors, categories, every other row |
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from trainload.recordings.format.envelopes import IMPORT_PREFIX
from trainload.recordings.format.field_rules import FieldRules
from trainload.recordings.importers.columns import Column, ColumnSource, file_loader, file_stream
from trainload.recordings.importers.file_list import FileList, NameArray
from trainload.recordings.importers.folders.nuscenes.tables import DriveTables, Row, TableRows
from trainload.recordings.importers.source import Damage, SourceStream

EGO_DTYPE = np.dtype([("token", "|S32"), ("translation", "<f8", 3), ("rotation_wxyz", "<f8", 4)])
SAMPLE_DATA_DTYPE = np.dtype(
    [
        ("channel", "<i4"),
        ("key_frame", "|b1"),
        ("width", "<i4"),
        ("height", "<i4"),
        ("token", "|S32"),
        ("sample_token", "|S32"),
    ]
)
BOX_DTYPE = np.dtype(
    [
        ("translation", "<f8", 3),
        ("size", "<f8", 3),
        ("rotation_wxyz", "<f8", 4),
        ("category", "<i4"),
        ("visibility", "<i4"),
        ("attributes", "<u8"),
        ("num_lidar_pts", "<i4"),
        ("num_radar_pts", "<i4"),
        ("token", "|S32"),
        ("instance_token", "|S32"),
    ]
)
_OWN_STREAMS = ("ego_pose", "sample", "sample_data", "sample_annotation")
_SAMPLE_TIME = "sample.json, timestamp"
_ROTATION: FieldRules = {"rotation_wxyz": "quaternion_wxyz"}
_MAX_ATTRIBUTES = 64


def table_columns(root: Path, tables: DriveTables, source: ColumnSource) -> list[Column]:
    """The streams of the drive's tables, and the label files (lidarseg, panoptic) that some of them name."""
    columns: list[Column] = []
    rows = tables.rows
    if "ego_pose" in rows:
        columns.append(_ego_poses(rows["ego_pose"]))
    if "sample" in rows:
        columns.append(_json_rows("sample/rows", rows["sample"], _SAMPLE_TIME))
    if "sample_data" in rows:
        columns.append(_sample_data(rows["sample_data"]))
        columns.append(_json_rows("sample_data/rows", rows["sample_data"], "sample_data.json, timestamp"))
    if len(rows.get("sample_annotation", ())):
        columns += _annotations(rows["sample_annotation"], tables)
    columns.append(_other_rows(tables))
    for table, found in rows.items():
        if table not in _OWN_STREAMS and len(found) and {"sample_data_token", "filename"} <= found.value(0).keys():
            columns.append(_label_files(root, table, found, tables, source.damage))
    return columns


def _ego_poses(rows: TableRows) -> Column:
    def load(index: int) -> bytes:
        row = rows.value(index)
        record = (_token(row["token"]), row["translation"], row["rotation"])
        return np.array([record], EGO_DTYPE).tobytes()

    stream = SourceStream(
        "ego_pose",
        "pose",
        dtype=EGO_DTYPE,
        time_source="ego_pose.json, timestamp",
        packed=True,
        calibration={"frame": "global, of the log's map", "rotation": "w, x, y, z"},
        fields=_ROTATION,
    )
    return Column(stream, rows.times, load)


def _sample_data(rows: TableRows) -> Column:
    """Which frames are key frames, and which sample each belongs to; at the times of the frames."""
    channels: dict[str, int] = {}
    for index in range(len(rows)):
        channels.setdefault(_channel(rows.value(index)), len(channels))

    def load(index: int) -> bytes:
        row = rows.value(index)
        record = (
            channels[_channel(row)],
            bool(row.get("is_key_frame")),
            row.get("width") or 0,
            row.get("height") or 0,
            _token(row["token"]),
            _token(row["sample_token"]),
        )
        return np.array([record], SAMPLE_DATA_DTYPE).tobytes()

    stream = SourceStream(
        "sample_data",
        "key frames",
        dtype=SAMPLE_DATA_DTYPE,
        time_source="sample_data.json, timestamp",
        packed=True,
        calibration={"channels": list(channels)},
    )
    return Column(stream, rows.times, load)


def _channel(row: Row) -> str:
    """The channel that the name of the row's file has in it."""
    parts = str(row["filename"]).rpartition("/")[2].split("__")
    return parts[-2] if len(parts) > 2 else ""


def _json_rows(name: str, rows: TableRows, time_source: str) -> Column:
    return Column(SourceStream(name, "table rows", "json", time_source=time_source), rows.times, rows.text)


def _annotations(rows: TableRows, tables: DriveTables) -> list[Column]:
    """Boxes and their rows, one frame per sample; a sample without boxes has an empty frame."""
    times = np.array(sorted(tables.samples.values()), np.int64)
    of_sample = rows.times
    order = np.argsort(of_sample, kind="stable")
    bounds = np.append(np.searchsorted(of_sample[order], times), len(order))
    attributes = _values(tables, "attribute")[:_MAX_ATTRIBUTES]
    visibility = _values(tables, "visibility")
    places = {row.get("token"): place for place, row in enumerate(attributes)}
    seen = {row.get("token"): place for place, row in enumerate(visibility)}

    def boxes(index: int) -> bytes:
        found = [rows.value(k) for k in order[bounds[index] : bounds[index + 1]].tolist()]
        return np.array([_box(row, tables.instances, places, seen) for row in found], BOX_DTYPE).tobytes()

    def texts(index: int) -> bytes:
        return b"[" + b",".join(rows.text(k) for k in order[bounds[index] : bounds[index + 1]].tolist()) + b"]"

    meaning = {
        "frame": "global, of the log's map",
        "translation": "center x, y, z in m",
        "size": "width, length, height in m",
        "rotation": "w, x, y, z",
        "category": "position in categories, -1: unknown",
        "visibility": "position in visibilities, -1: not annotated",
        "attributes": "bit k: attribute_names[k]",
        "categories": [row.get("name") for row in tables.categories],
        "visibilities": [row.get("level") for row in visibility],
        "attribute_names": [row.get("name") for row in attributes],
    }
    streams = [
        SourceStream(
            "annotations",
            "boxes",
            dtype=BOX_DTYPE,
            shape=(-1,),
            time_source=_SAMPLE_TIME,
            calibration=meaning,
            fields=_ROTATION,
        ),
        SourceStream("annotations/rows", "table rows", "json", time_source=_SAMPLE_TIME),
    ]
    return [Column(streams[0], times, boxes), Column(streams[1], times, texts)]


def _box(
    row: Row, categories: dict[str, int], attributes: dict[Any, int], visibility: dict[Any, int]
) -> tuple[Any, ...]:
    bits = sum({1 << attributes[token] for token in row.get("attribute_tokens", ()) if token in attributes})
    return (
        row["translation"],
        row["size"],
        row["rotation"],
        categories.get(row["instance_token"], -1),
        visibility.get(row.get("visibility_token"), -1),
        bits,
        _count(row, "num_lidar_pts"),
        _count(row, "num_radar_pts"),
        _token(row["token"]),
        _token(row["instance_token"]),
    )


def _count(row: Row, key: str) -> int:
    found = row.get(key)
    return -1 if found is None else int(found)


def _other_rows(tables: DriveTables) -> Column:
    """Rows of the tables without a stream of their own, at the drive's first sample."""
    kept = [(name, rows) for name, rows in tables.rows.items() if name not in _OWN_STREAMS and len(rows)]
    bounds = np.array([0, *accumulate(len(rows) for _, rows in kept)])
    start = min(tables.samples.values(), default=0)

    def load(index: int) -> bytes:
        place = int(np.searchsorted(bounds, index, side="right")) - 1
        name, rows = kept[place]
        return b'{"table":"%s","row":%s}' % (name.encode(), rows.text(index - int(bounds[place])))

    stream = SourceStream(
        IMPORT_PREFIX + "tables",
        "table rows",
        "json",
        clock="host",
        time_source="the first sample: no times of their own",
    )
    return Column(stream, np.full(int(bounds[-1]), start, np.int64), load)


def _label_files(root: Path, table: str, rows: TableRows, tables: DriveTables, damage: Damage) -> Column:
    """Files that a table names per sample_data (labels of points), at its time."""
    names, times = NameArray(), array("q")
    for index, time in enumerate(rows.times.tolist()):
        name = PurePosixPath(str(rows.value(index).get("filename", "")))
        if name.is_absolute() or ".." in name.parts or not name.name:
            damage.add(f"{table}.json: {str(name)!r} is no file of the data set", frames=1)
            continue
        tables.label_folders.add(name.parts[0])
        names.append(str(name))
        times.append(time)
    files = FileList(root, names.array())
    more: dict[str, Any] = {"kind": "labels"}
    if files.extension == ".bin":
        more |= {"encoding": "raw", "dtype": np.dtype("|u1"), "shape": (-1,)}
    stream = file_stream(table, files.extension, clock="hardware", time_source="sample_data.json, timestamp", **more)
    return Column(stream, np.array(times, np.int64), file_loader(files.path))


def _values(tables: DriveTables, table: str) -> list[Row]:
    rows = tables.rows.get(table)
    return [rows.value(index) for index in range(len(rows))] if rows is not None else []


def _token(token: Any) -> bytes:
    """A token as it is; one of more than 32 letters does not fit, and only the rows have it whole."""
    return str(token).encode()[:32]
