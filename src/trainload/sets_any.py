"""Which sets and recordings lie under some paths: files, volumes, patterns, folders, folders of sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from trainload.errors import FormatError
from trainload.images.classes.walk import holds_pictures
from trainload.storage.containers import HYPERFRAME, AnyPath, find_files, holds_recordings, read_kind
from trainload.storage.location import is_url
from trainload.verify_any import find_sets


def find_all_sets(paths: AnyPath | Sequence[AnyPath]) -> list[list[str]]:
    """The paths of each set, for `trainload.open`, in the order in which they are met.

    Volumes of one set are one. Recordings that are named singly are the parts of one, as `trainload.open` has it. A
    folder of .dts files stands for the sets in it, unless it has folders of pictures; any other folder for itself.
    Raises UsageError for a pattern that matches nothing, OSError.
    """
    sets: list[list[str]] = []
    files: list[str] = []
    recordings: list[str] = []
    met: list[str] = []
    for path in find_files(paths):
        inside = _sets_inside(path)
        for each in inside or [path]:
            met.append(each)
            if not is_url(each) and Path(each).is_dir():
                sets.append([each])
            else:
                (recordings if _is_recording(each) else files).append(each)
        if inside and holds_recordings(path):
            met.append(path)
            sets.append([path])
    sets += find_sets(files)
    sets += [recordings] if recordings else []
    return sorted(sets, key=lambda one: min(map(met.index, one)))


def _sets_inside(path: str) -> list[str]:
    """The .dts files of a folder that has no folders of pictures."""
    if is_url(path) or not Path(path).is_dir():
        return []
    with os.scandir(path) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    found = [entry.path for entry in listed if entry.name.endswith(".dts") and entry.is_file()]
    if found and any(entry.is_dir() and holds_pictures(entry.path) for entry in listed):
        return []
    return found


def _is_recording(path: str) -> bool:
    try:
        return read_kind(path) == HYPERFRAME
    except FormatError:  # for opening it to say
        return False
