"""comma2k19: a segment's processed_log/<group>/<signal>/{t,value} and global_pose/, numpy arrays with a clock each.

Times are seconds of the device's boot clock, float64 (exact to the ns at these ages). Raw CAN has address, data, src
and t instead of value. The raw log (capnp in bzip2) is kept as bytes. Source: Schafer et al., arXiv:1812.05752.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import FormatError, UsageError
from trainload.recordings.format.field_rules import FieldRules, Fields, Rule
from trainload.recordings.format.hyperframe import MAX_FRAME_BYTES
from trainload.recordings.importers.attached import attached_column, first_time
from trainload.recordings.importers.columns import Column, ColumnSource, need_folder
from trainload.recordings.importers.logs.messages.video_units import h265_pictures
from trainload.recordings.importers.rows.npy import NpyArray, NpyRecords
from trainload.recordings.importers.source import Damage, SourceStream
from trainload.storage.file import FileSource

_KINDS = {"IMU": "imu", "GNSS": "gnss", "CAN": "can"}
_POSE = ("frame_positions", "frame_velocities", "frame_orientations", "frame_gps_times")
_CLOCKS = {"can": "host", "gnss": "host"}
_LIVE = ("linear", "angle_degrees", "linear", "linear", "linear", "angle_degrees")
_FIELDS: dict[str, dict[str, tuple[tuple[int, ...] | None, Rule]]] = {  # shape, or None for any
    "global_pose": {"orientation_wxyz": ((4,), "quaternion_wxyz")},
    "gnss/live_gnss_qcom": {"value": ((6,), _LIVE)},  # latitude, longitude, speed, time, altitude, bearing
    "gnss/live_gnss_ublox": {"value": ((6,), _LIVE)},
    "gnss/raw_gnss_qcom": {"value": (None, "previous")},  # of one satellite after the other
    "gnss/raw_gnss_ublox": {"value": (None, "previous")},
    "can/radar": {"value": (None, "previous")},  # of one track after the other
    "can/raw_can": dict.fromkeys(("address", "data", "src"), (None, "previous")),
}
_TIME_SOURCE = "t, seconds of the boot clock"
_NOTE = "times are seconds since the device booted; CAN and GNSS were stamped when the host got them"
_PARTS = ("processed_log", "global_pose", "video.hevc", "raw_log.bz2", "preview.png")
_RAW_LOG_NOTE = "raw_log.bz2 is kept as bytes (capnp in bzip2, for openpilot's LogReader) in import/raw_log"
_MAX_TIMES_BYTES = 256 << 20


def open_comma(path: str | Path) -> ColumnSource:
    """One segment: the folder that holds processed_log and global_pose."""
    root = need_folder(path, "a comma2k19 segment (processed_log, global_pose)")
    source = ColumnSource([], [_NOTE])
    for signal in sorted(folder for folder in root.glob("processed_log/*/*") if folder.is_dir()):
        _add_signal(source, signal)
    if (root / "global_pose").is_dir():
        _add_pose(source, root / "global_pose")
    if (root / "video.hevc").is_file():
        _add_video(source, root)
    if not source.columns:
        raise UsageError(f"no processed_log/<group>/<signal>/t lies in {root}")
    _attach_files(source, root)
    return source


def _attach_files(source: ColumnSource, root: Path) -> None:
    """The raw log and the preview; says which parts of a segment are not there, and what else is."""
    time = first_time(source.columns)
    if (root / "raw_log.bz2").is_file():
        source.columns.append(attached_column("raw_log", root / "raw_log.bz2", time, kind="log", encoding="capnp.bz2"))
        source.notes.append(_RAW_LOG_NOTE)
    if (root / "preview.png").is_file():
        source.columns.append(attached_column("preview", root / "preview.png", time, kind="camera", encoding="png"))
    missing = [part for part in _PARTS if not (root / part).exists()]
    if missing:
        source.notes.append(
            f"{len(missing)} of the {len(_PARTS)} parts of a segment are not there: {', '.join(missing)}"
        )
    left_out = sorted(child.name for child in root.iterdir() if child.name not in _PARTS)
    if left_out:
        source.notes.append(f"left out: {', '.join(left_out)}")


def _add_signal(source: ColumnSource, folder: Path) -> None:
    names = sorted(file.name for file in folder.iterdir() if file.name != "t")
    arrays = {name: _open(folder / name, source.damage) for name in names}
    kind = _KINDS.get(folder.parent.name, "generic")
    _add(source, f"{folder.parent.name.lower()}/{folder.name}", kind, folder / "t", arrays)


def _add_pose(source: ColumnSource, folder: Path) -> None:
    rename = {"frame_orientations": "orientation_wxyz"}
    arrays = {}
    for name in sorted(file.name for file in folder.iterdir() if file.name != "frame_times"):
        arrays[rename.get(name, name.removeprefix("frame_"))] = _open(folder / name, source.damage)
    missing = [name for name in _POSE if not (folder / name).is_file()]
    if missing:
        source.notes.append(f"global_pose has no {', '.join(missing)}")
    if arrays:
        _add(source, "global_pose", "pose", folder / "frame_times", arrays)


def _add_video(source: ColumnSource, root: Path) -> None:
    """The camera: one H.265 picture per frame time."""
    path = root / "video.hevc"
    units = h265_pictures(path)
    times = _times(root / "global_pose" / "frame_times", source.damage)
    count = 0 if times is None else min(len(units), len(times))
    if times is None or len(units) != len(times):
        known = 0 if times is None else len(times)
        reason = f"video.hevc: {len(units):,} pictures and {known:,} frame times"
        source.damage.add(reason, frames=len(units) - count)
    if times is None or not count:
        return
    good = np.flatnonzero(times[:count] >= 0)
    if len(good) < count:
        source.damage.add("video.hevc: frame times that are no numbers", frames=count - len(good))

    def load(index: int) -> bytes:
        unit = units[int(good[index])]
        if unit.size > MAX_FRAME_BYTES:
            raise ValueError(f"{unit.size:,} bytes are no picture: {path}")
        with FileSource(path) as file:
            return file.read_at(unit.offset, unit.size)

    stream = SourceStream("camera", "camera", "hevc", clock="hardware", time_source="global_pose/frame_times")
    source.columns.append(Column(stream, times[good], load, keys=units.keys[good]))


def _add(source: ColumnSource, name: str, kind: str, times_path: Path, arrays: dict[str, NpyArray | None]) -> None:
    """One stream: a record per time, with a field for each array that could be read."""
    times = _times(times_path, source.damage)
    found = {field: array for field, array in arrays.items() if array is not None}
    if times is None or not found:
        frames = max((len(array) for array in found.values()), default=0) if times is None else len(times)
        source.damage.add(f"{name}: {'no times' if times is None else 'no values'}", frames=frames)
        return
    try:
        records = NpyRecords(found)
    except ValueError as error:
        source.damage.add(f"{name}: {error}", frames=len(times))
        return
    count, most = min(len(times), len(records)), max(len(times), *(len(a) + a.lost for a in found.values()))
    if count < most:
        lengths = ", ".join(f"{len(array) + array.lost:,} {field}" for field, array in found.items())
        source.damage.add(f"{name}: {len(times):,} times, {lengths}, {count:,} whole records", frames=most - count)
    good = np.flatnonzero(times[:count] >= 0)
    if len(good) < count:
        source.damage.add(f"{name}: times that are no numbers", frames=count - len(good))
    stream = SourceStream(
        name,
        kind,
        dtype=records.dtype,
        clock=_CLOCKS.get(kind, "hardware"),
        time_source=_TIME_SOURCE,
        packed=True,
        fields=_fields(name, records.dtype),
    )
    source.columns.append(Column(stream, times[good], lambda index: records.record(int(good[index]))))


def _fields(name: str, dtype: np.dtype[Any]) -> FieldRules:
    """What the data set's description says of the fields, as far as they are there in its shape."""
    found: dict[Fields, Rule] = {}
    for field, (shape, rule) in _FIELDS.get(name, {}).items():
        if field in (dtype.names or ()) and (shape is None or dtype[field].shape == shape):
            found[field] = rule
    return found


def _times(path: Path, damage: Damage) -> NDArray[np.int64] | None:
    """Times in ns, -1 where the file has no number; None where it cannot be read."""
    array = _open(path, damage)
    if array is None:
        return None
    try:
        if array.shape or array.dtype.kind not in "iuf" or len(array) * array.row_bytes > _MAX_TIMES_BYTES:
            raise ValueError(f"{len(array):,} values of {array.dtype} cannot be times")
        seconds: NDArray[Any] = array.rows(0, len(array)).astype(np.float64)
    except (OSError, ValueError, FormatError) as error:
        damage.add(f"{path.parent.name}/{path.name}: {error}")
        return None
    good = (seconds >= 0) & (seconds < 9e9)  # what int64 ns hold
    return np.where(good, np.rint(np.where(good, seconds, 0) * 1e9), -1).astype(np.int64)


def _open(path: Path, damage: Damage) -> NpyArray | None:
    try:
        return NpyArray(path)
    except (OSError, ValueError, EOFError, FormatError) as error:
        damage.add(f"{path.parent.name}/{path.name}: {error}")
        return None
