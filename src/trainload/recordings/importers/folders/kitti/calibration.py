"""The calibration of a KITTI raw drive: calib_*.txt of its day, as matrices and as text, and the fields of oxts."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from trainload.recordings.importers.columns import ColumnSource

# fmt: off
OXTS_FIELDS = (
    "lat", "lon", "alt", "roll", "pitch", "yaw", "vn", "ve", "vf", "vl", "vu", "ax", "ay", "az", "af", "al", "au",
    "wx", "wy", "wz", "wf", "wl", "wu",
    "pos_accuracy", "vel_accuracy", "navstat", "numsats", "posmode", "velmode", "orimode",
)
# fmt: on
OXTS_RULES = {
    "lon": "angle_degrees",
    "roll": "angle",
    "pitch": "angle",
    "yaw": "angle",
    **dict.fromkeys(("navstat", "numsats", "posmode", "velmode", "orimode"), "previous"),
}
FILES = ("calib_cam_to_cam.txt", "calib_velo_to_cam.txt", "calib_imu_to_velo.txt")
_OF_SENSOR = {"image": FILES[0], "velodyne": FILES[1], "oxts": FILES[2]}
_SHAPES = {9: (3, 3), 12: (3, 4), 16: (4, 4)}
_CAMERA_KEY = re.compile(r"([A-Za-z_]+)_(\d\d)")
_MAX_BYTES = 1 << 16


def kitti_calibration(folder: Path, source: ColumnSource) -> dict[str, Any]:
    """What the day's calibration file says of the sensor in `folder`; {} and a note where there is no file.

    Lists of 9, 12 and 16 numbers become matrices by rows. A camera gets what carries its number, without the number
    (K, D, R, T, S_rect, R_rect, P_rect), and what carries none. "text" is the whole file. It lies in the drive's folder
    or, as the data come, in the one above.
    """
    name = next((file for prefix, file in _OF_SENSOR.items() if folder.name.startswith(prefix)), None)
    if name is None:
        return {}
    path = next((place / name for place in (folder.parent, folder.parent.parent) if (place / name).is_file()), None)
    if path is None:
        source.notes.append(f"{folder.name} has no calibration: no {name} in the drive's folder or the one above")
        return {}
    with path.open("rb") as file:
        text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    found: dict[str, Any] = {}
    for line in filter(str.strip, text.splitlines()):
        key, colon, rest = line.partition(":")
        if colon:
            _keep(found, key.strip(), _value(rest.split()) if key != "calib_time" else rest.strip(), folder.name)
        else:
            source.damage.add(f"{path.name}: not understood: {line[:80]!r}")
    return {**found, "file": name, "text": text}


def oxts_fields(path: Path) -> dict[str, str]:
    """Name and meaning of every number of an oxts file, in order, from dataformat.txt, else as all drives have them."""
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return dict.fromkeys(OXTS_FIELDS, "")
    pairs = [line.partition(":") for line in lines if ":" in line]
    fields = {name.strip(): meaning.strip() for name, _, meaning in pairs if name.strip().isidentifier()}
    return fields or dict.fromkeys(OXTS_FIELDS, "")


def _keep(found: dict[str, Any], key: str, value: Any, sensor: str) -> None:
    of_camera = _CAMERA_KEY.fullmatch(key)
    if of_camera is None:
        found[key] = value
    elif sensor.endswith(of_camera[2]):
        found[of_camera[1]] = value


def _value(words: list[str]) -> Any:
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return " ".join(words)
    if not all(map(math.isfinite, numbers)):  # JSON has no others
        return " ".join(words)
    if len(numbers) == 1:
        return numbers[0]
    rows, columns = _SHAPES.get(len(numbers), (0, 0))
    return [numbers[k * columns : (k + 1) * columns] for k in range(rows)] if rows else numbers
