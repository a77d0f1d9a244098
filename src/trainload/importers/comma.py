"""comma2k19: a segment's processed_log/<group>/<signal>/{t,value} and global_pose/, numpy arrays with a clock each.

Times are seconds of the device's boot clock, float64 (about 0.1 us at these ages). Raw CAN has address, data, src and t
instead of value. Source: Schafer et al., arXiv:1812.05752.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.importers.columns import Column, ColumnSource, need_folder, row_loader
from trainload.importers.source import Damage, SourceStream
from trainload.importers.video_units import h265_pictures
from trainload.storage.file import FileSource

_KINDS = {"IMU": "imu", "GNSS": "gnss", "CAN": "can"}
_POSE = ("frame_positions", "frame_velocities", "frame_orientations", "frame_gps_times")
_CLOCKS = {"can": "host", "gnss": "host"}
_TIME_SOURCE = "t, seconds of the boot clock"
_NOTE = "times are seconds since the device booted; CAN and GNSS were stamped when the host got them"
_MAX_ARRAY_BYTES = 1 << 30


def open_comma(path: str | Path) -> ColumnSource:
    """One segment: the folder that holds processed_log and global_pose."""
    root = need_folder(path, "a comma2k19 segment (processed_log, global_pose)")
    source = ColumnSource([], [_NOTE])
    for time_path in sorted(root.glob("processed_log/*/*/t")):
        _add_signal(source, time_path.parent)
    if (root / "global_pose" / "frame_times").is_file():
        _add_pose(source, root / "global_pose")
    if (root / "video.hevc").is_file():
        _add_video(source, root)
    if not source.columns:
        raise UsageError(f"no processed_log/<group>/<signal>/t lies in {root}")
    return source


def _add_signal(source: ColumnSource, folder: Path) -> None:
    names = sorted(file.name for file in folder.iterdir() if file.name != "t")
    arrays = {name: _load(folder / name, source.damage) for name in ("t", *names)}
    times = arrays.pop("t")
    rows = _records({name: array for name, array in arrays.items() if array is not None})
    kind = _KINDS.get(folder.parent.name, "generic")
    _add(source, f"{folder.parent.name.lower()}/{folder.name}", kind, times, rows)


def _add_pose(source: ColumnSource, folder: Path) -> None:
    times = _load(folder / "frame_times", source.damage)
    found = {name: _load(folder / name, source.damage) for name in _POSE if (folder / name).is_file()}
    names = {"frame_orientations": "orientation_wxyz"}
    rows = _records({names.get(k, k.removeprefix("frame_")): v for k, v in found.items() if v is not None})
    _add(source, "global_pose", "pose", times, rows)


def _add_video(source: ColumnSource, root: Path) -> None:
    """The camera: one H.265 picture per frame time."""
    path = root / "video.hevc"
    units = h265_pictures(path)
    times = _load(root / "global_pose" / "frame_times", source.damage)
    count = 0 if times is None else min(len(units), len(times))
    if times is None or len(units) != len(times):
        known = 0 if times is None else len(times)
        reason = f"video.hevc: {len(units):,} pictures and {known:,} frame times"
        source.damage.add(reason, frames=len(units) - count)
    if times is None or not count:
        return

    def load(index: int) -> bytes:
        with FileSource(path) as file:
            return file.read_at(units[index].offset, units[index].size)

    stream = SourceStream("camera", "camera", "hevc", clock="hardware", time_source="global_pose/frame_times")
    stamps = np.rint(times[:count].astype(np.float64) * 1e9).astype(np.int64)
    source.columns.append(Column(stream, stamps, load, keys=np.array([unit.key for unit in units[:count]], np.bool_)))


def _add(source: ColumnSource, name: str, kind: str, times: NDArray[Any] | None, rows: NDArray[Any] | None) -> None:
    if times is None or rows is None:
        return
    count = min(len(times), len(rows))
    if len(times) != len(rows):
        lost = max(len(times), len(rows)) - count
        source.damage.add(f"{name}: {len(times):,} times and {len(rows):,} values", frames=lost)
    good = np.isfinite(times[:count]) & (times[:count] >= 0)
    if not good.all():
        source.damage.add(f"{name}: times that are no numbers", frames=int((~good).sum()))
    stamps = np.rint(times[:count][good].astype(np.float64) * 1e9).astype(np.int64)
    stream = SourceStream(
        name, kind, dtype=rows.dtype, clock=_CLOCKS.get(kind, "hardware"), time_source=_TIME_SOURCE, packed=True
    )
    source.columns.append(Column(stream, stamps, row_loader(rows[:count][good])))


def _records(arrays: dict[str, NDArray[Any]]) -> NDArray[Any] | None:
    """Arrays of equal length as one structured array with a field for each."""
    if not arrays:
        return None
    count = min(len(array) for array in arrays.values())
    little = {name: array.astype(array.dtype.newbyteorder("<"), copy=False) for name, array in arrays.items()}
    rows = np.zeros(count, np.dtype([(name, array.dtype, array.shape[1:]) for name, array in little.items()]))
    for name, array in little.items():
        rows[name] = array[:count]
    return rows


def _load(path: Path, damage: Damage) -> NDArray[Any] | None:
    try:
        if path.stat().st_size > _MAX_ARRAY_BYTES:
            raise ValueError("the array is larger than 1 GiB")
        array: NDArray[Any] = np.load(path, allow_pickle=False)
        if array.ndim == 0 or array.dtype.kind not in "biufSU":
            raise ValueError(f"an array of {array.dtype} cannot be a stream")
    except (OSError, ValueError, EOFError) as error:
        damage.add(f"{path.parent.name}/{path.name}: {error}")
        return None
    return np.char.encode(array, "utf-8") if array.dtype.kind == "U" else array
