"""TUM RGB-D: rgb.txt, depth.txt (time, file), accelerometer.txt, groundtruth.txt (time, numbers); seconds in decimals.

A list of another kind (associations.txt) is kept line by line. Source: Sturm et al., "A benchmark for the evaluation of
RGB-D SLAM systems", IROS 2012. Picture times are those of the host's driver; the ground truth comes from the
motion-capture system, brought to the same clock by the authors.
"""

from __future__ import annotations

import os
from pathlib import Path

from trainload.errors import UsageError
from trainload.recordings.format.field_rules import FieldRules
from trainload.recordings.importers.columns import (
    Column,
    ColumnSource,
    add_unlisted,
    file_loader,
    file_stream,
    need_folder,
)
from trainload.recordings.importers.file_list import NameArray, base_name, extension_of, listed_files
from trainload.recordings.importers.rows.csv import NumberColumns, Words, any_words, spaced_rows
from trainload.recordings.importers.source import Damage, SourceStream
from trainload.recordings.importers.time_units import Seconds

_NUMBERS = {
    "accelerometer": ("imu", ("ax", "ay", "az")),
    "groundtruth": ("pose", ("tx", "ty", "tz", "qx", "qy", "qz", "qw")),
}
_FIELDS: dict[str, FieldRules] = {"groundtruth": {("qx", "qy", "qz", "qw"): "quaternion_xyzw"}}
_PICTURES = ("rgb", "depth")


def open_tum(path: str | Path) -> ColumnSource:
    """A sequence folder."""
    root = need_folder(path, "a TUM sequence (rgb.txt, depth.txt, groundtruth.txt)")
    source = ColumnSource([])
    lists = sorted(root.glob("*.txt"))
    if not any(list_path.stem in _NUMBERS or (root / list_path.stem).is_dir() for list_path in lists):
        raise UsageError(f"no list of a TUM sequence (rgb.txt with a folder rgb, ...) lies in {root}")
    for list_path in lists:
        to_ns = Seconds()
        if list_path.stem in _NUMBERS:
            column = _numbers(list_path, source.damage, to_ns)
        elif list_path.stem in _PICTURES or (root / list_path.stem).is_dir():
            column = _files(root, list_path, source.damage, to_ns)
        else:
            column = _lines(list_path, source.damage, to_ns)
        source.columns.append(column)
        if to_ns.why:
            source.notes.append(f"{list_path.name}: {to_ns.why}")
    taken = {list_path.stem for list_path in lists} | {list_path.name for list_path in lists}
    left_out = sorted(child.name for child in root.iterdir() if child.name not in taken)
    if left_out:
        source.notes.append(f"left out, no list with times is beside it: {', '.join(left_out)}")
    return source


def _files(root: Path, list_path: Path, damage: Damage, to_ns: Seconds) -> Column:
    listed, folder = NameArray(), root / list_path.stem

    def check(words: Words) -> None:
        _need_words(words, 2)
        listed.append(base_name(words[1]))

    rows, comments = spaced_rows(list_path, to_ns, damage, check)
    names = listed.array()
    extension = extension_of(os.fsdecode(names[0])) if len(names) else ""
    if folder.is_dir():
        add_unlisted(damage, list_path.stem, listed_files(folder), names)
    stream = file_stream(
        list_path.stem,
        extension,
        clock="host",
        time_source=f"{list_path.name}, stamped by the driver",
        calibration={"comments": comments},
    )
    return Column(stream, rows.times, file_loader(lambda k: f"{folder}/{base_name(rows.words(k)[1])}"))


def _numbers(list_path: Path, damage: Damage, to_ns: Seconds) -> Column:
    kind, names = _NUMBERS[list_path.stem]
    numbers = NumberColumns(names, range(1, len(names) + 1))

    def check(words: Words) -> None:
        _need_words(words, len(names) + 1)
        numbers.check(words)

    rows, comments = spaced_rows(list_path, to_ns, damage, check)
    pack = numbers.packer()
    stream = SourceStream(
        list_path.stem,
        kind,
        dtype=numbers.dtype,
        clock="host",
        time_source=f"{list_path.name}, on the host's clock",
        packed=True,
        calibration={"comments": comments},
        fields=_FIELDS.get(list_path.stem, {}),
    )
    return Column(stream, rows.times, lambda k: pack(rows.words(k)))


def _lines(list_path: Path, damage: Damage, to_ns: Seconds) -> Column:
    rows, comments = spaced_rows(list_path, to_ns, damage, any_words)
    stream = SourceStream(
        list_path.stem,
        "list",
        "txt",
        clock="host",
        time_source=f"{list_path.name}, first word",
        calibration={"comments": comments},
    )
    return Column(stream, rows.times, rows.line)


def _need_words(words: Words, count: int) -> None:
    if len(words) != count:
        raise ValueError(f"{len(words)} words where {count} are expected")
