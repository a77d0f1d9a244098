"""A folder of streams: one sub-folder of files, or one CSV, per stream; the time is in the name or in a column.

Names: the last run of digits, or decimal seconds, is the time (frame_1700000000123456789.png, 1305031102.175304.png).
CSV: a header line; the time column is called time, timestamp, t or stamp, perhaps with a unit (timestamp_us, "t [s]").
Rows of numbers become packed samples, rows with text JSON objects.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from trainload.errors import UsageError
from trainload.recordings.importers.columns import (
    Column,
    ColumnSource,
    file_loader,
    file_stream,
    need_folder,
    seconds_to_ns,
)
from trainload.recordings.importers.file_list import FileList, extension_of, listed_files, listed_folders, name_array
from trainload.recordings.importers.rows.csv import (
    NumberColumns,
    any_words,
    are_numbers,
    csv_rows,
    read_header,
    unique_names,
)
from trainload.recordings.importers.source import Damage, SourceStream

_UNITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}  # powers of ten over ns
_TIME_COLUMN = re.compile(
    r"#?\s*(?:time|timestamp|stamp|t)(?:[_ ]*[\[(]?(ns|us|ms|s|sec|seconds)[\])]?)?", re.IGNORECASE
)
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_LONG_AGO_NS = 10**17  # 1973: below it lie times since a start, and frame numbers
_NO_TIME = -(1 << 63)


def open_folder(path: str | Path, *, unit: str | None = None, stamped_by: str = "host") -> ColumnSource:
    """unit: of the times, "ns", "us", "ms" or "s"; left out, it follows from a column's name or the number's size.

    stamped_by: what stamped the frames; nobody says so in a folder, so it is "host" unless you know better.
    """
    if unit is not None and unit not in _UNITS:
        raise UsageError(f"a unit is one of {', '.join(_UNITS)}, not {unit!r}")
    root = need_folder(path, "sub-folders and CSV files, one per stream")
    source = ColumnSource([])
    left_out: list[str] = []
    for child in sorted(root.iterdir()):
        if child.is_dir():
            source.columns += _files(child, unit, stamped_by, source.damage)
            left_out += [f"{child.name}/{below}" for below in listed_folders(child)]
        elif child.suffix.lower() == ".csv":
            taken = child.stem in {column.stream.name for column in source.columns} or (root / child.stem).is_dir()
            source.columns += _csv(child, child.name if taken else child.stem, unit, stamped_by, source.damage)
        else:
            left_out.append(child.name)
    if not source.columns:
        why = "".join(f"; {reason}" for reason in source.damage.reasons[:3])
        raise UsageError(
            f"no sub-folder with times in its file names, and no CSV with a time column, lies in {root}{why}"
        )
    for column in source.columns:
        if len(column.times) and int(column.times.max()) < _LONG_AGO_NS:
            source.notes.append(
                f"the times of {column.stream.name} are small numbers: if they count frames, not seconds "
                "or another unit since some start, the file has no time of them"
            )
    if left_out:
        source.notes.append(f"left out, neither a folder of files nor a CSV: {', '.join(left_out)}")
    return source


def _files(folder: Path, unit: str | None, clock: str, damage: Damage) -> list[Column]:
    """A stream for every extension in the folder; all but that of the most files have it in their name."""
    for name in listed_files(folder, lambda name: not _time_text(name)).names:
        damage.add(f"{folder.name}/{name.decode(errors='replace')}: no time in the name", frames=1)
    files = listed_files(folder, lambda name: bool(_time_text(name)))
    extensions = name_array(extension_of(files.name(k)) for k in range(len(files)))
    kinds, counts = np.unique(extensions, return_counts=True)
    columns: list[Column] = []
    for kind in kinds[np.argsort(-counts, kind="stable")]:
        name = f"{folder.name}/{os.fsdecode(kind).lstrip('.')}" if columns else folder.name
        columns.append(_files_of_kind(name, files.take(extensions == kind), unit, clock, damage))
    return columns


def _files_of_kind(name: str, files: FileList, unit: str | None, clock: str, damage: Damage) -> Column:
    unit = unit or _guess_unit(_time_text(os.fsdecode(name)) for name in files.names)
    times = array("q")
    for file in files.names:
        try:
            times.append(_ns(_time_text(os.fsdecode(file)), unit))
        except OverflowError:
            damage.add(f"{name}/{os.fsdecode(file)}: the time does not fit", frames=1)
            times.append(_NO_TIME)
    stamps = np.array(times, np.int64)
    files, stamps = files.take(stamps != _NO_TIME), stamps[stamps != _NO_TIME]
    stream = file_stream(name, files.extension, clock=clock, time_source=f"file name, {unit}")
    return Column(stream, stamps, file_loader(files.path))


def _time_text(name: str) -> str:
    """The time in a file's name, "" where there is none."""
    stem = name.rpartition(".")[0] or name
    numbers: list[str] = _DIGITS.findall(stem)
    return numbers[-1] if numbers else ""


def _csv(path: Path, name: str, unit: str | None, clock: str, damage: Damage) -> list[Column]:
    header, first = read_header(path)
    found = [(k, match) for k, name in enumerate(header) if (match := _TIME_COLUMN.fullmatch(name))]
    if not found:
        damage.add(f"{path.name}: no column is called time, timestamp, stamp or t: {', '.join(header)[:200]}")
        return []
    time_column, match = found[0]
    said = (match[1] or "").lower()
    unit = (
        unit
        or ("s" if said in ("sec", "seconds") else said)
        or _guess_unit([words[time_column] for words in first[:1]])
    )
    others = [k for k in range(len(header)) if k != time_column]
    about: dict[str, Any] = {"clock": clock, "time_source": f"column {header[time_column]!r}, {unit}"}

    def to_ns(text: str) -> int:
        return _ns(text, unit)

    if are_numbers(first, others):
        numbers = NumberColumns([header[k] or f"column_{k}" for k in others], others)
        rows = csv_rows(path, time_column, to_ns, damage, numbers.check)
        pack = numbers.packer()
        stream = SourceStream(name, "samples", dtype=numbers.dtype, packed=True, **about)
        return [Column(stream, rows.times, lambda k: pack(rows.csv_words(k)))]
    rows = csv_rows(path, time_column, to_ns, damage, any_words)
    stream = SourceStream(name, "samples", "json", calibration={"columns": header}, **about)
    names = unique_names(header)
    return [Column(stream, rows.times, lambda k: json.dumps(dict(zip(names, rows.csv_words(k)))).encode())]


def _guess_unit(texts: Iterable[str]) -> str:
    """The unit of a stream's times: decimals are s; else by the digits of the longest, below 12 s, 15 ms, 18 us, ns."""
    digits = 0
    for text in texts:
        if "." in text:
            return "s"
        digits = max(digits, len(text.strip().lstrip("-")))
    return "s" if digits < 12 else "ms" if digits < 15 else "us" if digits < 18 else "ns"


def _ns(text: str, unit: str) -> int:
    divisor: int = 10 ** (9 - _UNITS[unit])
    return seconds_to_ns(text) // divisor
