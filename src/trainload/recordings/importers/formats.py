"""The formats that `trainload import` knows, by name, each loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.recordings.importers.logs.plain_files import plain_head
from trainload.recordings.importers.source import Source

FORMATS: dict[str, tuple[str, str]] = {
    "mcap": ("trainload.recordings.importers.logs.mcap.source", "McapSource"),
    "rosbag1": ("trainload.recordings.importers.logs.rosbag1.source", "Rosbag1Source"),
    "rosbag2": ("trainload.recordings.importers.logs.rosbag2.source", "open_rosbag2"),
    "kitti": ("trainload.recordings.importers.folders.kitti.source", "open_kitti"),
    "nuscenes": ("trainload.recordings.importers.folders.nuscenes.source", "open_nuscenes"),
    "euroc": ("trainload.recordings.importers.folders.euroc.source", "open_euroc"),
    "tum": ("trainload.recordings.importers.folders.tum", "open_tum"),
    "comma2k19": ("trainload.recordings.importers.folders.comma", "open_comma"),
    "folder": ("trainload.recordings.importers.folders.plain", "open_folder"),
}


ALSO_CALLED = {"rosbag": ("rosbag1", "rosbag2"), "ros1": ("rosbag1",), "ros2": ("rosbag2",), "comma": ("comma2k19",)}
_ROS1_MAGIC = b"#ROSBAG V"


def open_source(kind: str, path: str | Path, *, scratch: str | Path | None = None, **options: Any) -> Source:
    """The recording at `path`. scratch: the folder for what a compressed log unpacks to, by default the system's.

    options: `clocks` (stream to "hardware" or "host") and `times` ("stamp", "log") for MCAP and bags, `log` for
    nuScenes, `unit` and `stamped_by` for a folder. kind: of FORMATS or ALSO_CALLED. Raises UsageError for an unknown
    format, an option that the format does not take, and a path that holds nothing of it.
    """
    check_format(kind)
    if not Path(path).exists():
        raise UsageError(f"there is nothing at {path}")
    kind = format_name(kind, Path(path))
    module, name = FORMATS[kind]
    opener: Callable[..., Source] = getattr(import_module(module), name)
    accepted = signature(opener).parameters
    unknown = set(options) - set(accepted)
    if unknown:
        raise UsageError(f"{kind} takes no option {', '.join(sorted(unknown))}")
    if "scratch" in accepted:
        options["scratch"] = scratch
    return opener(path, **options)


def check_format(kind: str) -> None:
    """Raise UsageError for an unknown format."""
    if kind not in FORMATS and kind not in ALSO_CALLED:
        raise UsageError(f"a format is one of {', '.join(FORMATS)}, not {kind!r}")


def format_name(kind: str, path: Path) -> str:
    """The name in FORMATS of a format that may be called by a shorter one: "rosbag" is what lies at `path`."""
    names = ALSO_CALLED.get(kind, (kind,))
    if len(names) == 1:
        return names[0]
    file = path if path.is_file() else next(iter(sorted(path.glob("*.bag*"))), None)
    if file is None or not file.is_file():
        return names[1]
    is_ros1 = ".bag" in file.suffixes or plain_head(file, len(_ROS1_MAGIC)) == _ROS1_MAGIC
    return names[0] if is_ros1 else names[1]
