"""A folder of streams: one sub-folder of files, or one CSV, per stream; the time is in the name or in a column.

Names: the last run of digits, or decimal seconds, is the time (frame_1700000000123456789.png, 1305031102.175304.png).
CSV: a header line; the time column is called time, timestamp, t or stamp, perhaps with a unit (timestamp_us, "t [s]").
Rows of numbers become packed samples, rows with text JSON objects.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from trainload.errors import UsageError
from trainload.importers.columns import (
    Column,
    ColumnSource,
    file_loader,
    file_stream,
    need_folder,
    row_loader,
    seconds_to_ns,
)
from trainload.importers.csv_rows import are_numbers, number_rows, read_header, text_rows
from trainload.importers.source import Damage, SourceStream

_UNITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}  # powers of ten over ns
_TIME_COLUMN = re.compile(
    r"#?\s*(?:time|timestamp|stamp|t)(?:[_ ]*[\[(]?(ns|us|ms|s|sec|seconds)[\])]?)?", re.IGNORECASE
)
_DIGITS = re.compile(r"\d+(?:\.\d+)?")


def open_folder(path: str | Path, *, unit: str | None = None, clock: str = "host") -> ColumnSource:
    """unit: of the times, "ns", "us", "ms" or "s"; left out, it follows from a column's name or the number's size.

    clock: what stamped the frames; nobody says so in a folder, so it is "host" unless you know better.
    """
    if unit is not None and unit not in _UNITS:
        raise UsageError(f"a unit is one of {', '.join(_UNITS)}, not {unit!r}")
    root = need_folder(path, "sub-folders and CSV files, one per stream")
    source = ColumnSource([])
    for child in sorted(root.iterdir()):
        if child.is_dir():
            column = _files(child, unit, clock, source.damage)
        elif child.suffix.lower() == ".csv":
            column = _csv(child, unit, clock, source.damage)
        else:
            continue
        if column is not None:
            source.columns.append(column)
    if not source.columns:
        raise UsageError(f"no sub-folder with times in its file names, and no CSV, lies in {root}")
    return source


def _files(folder: Path, unit: str | None, clock: str, damage: Damage) -> Column | None:
    texts, files = [], []
    for file in sorted(file for file in folder.iterdir() if file.is_file()):
        numbers = _DIGITS.findall(file.name.removesuffix(file.suffix))
        if numbers:
            texts.append(numbers[-1])
            files.append(file)
        else:
            damage.add(f"{folder.name}/{file.name}: no time in the name", frames=1)
    if not files:
        return None
    unit = unit or _guess_unit(texts)
    stream = file_stream(folder.name, files, clock=clock, time_source=f"file name, {unit}")
    return Column(stream, np.array([_ns(text, unit) for text in texts], np.int64), file_loader(files))


def _csv(path: Path, unit: str | None, clock: str, damage: Damage) -> Column:
    header, first = read_header(path)
    found = [(k, match) for k, name in enumerate(header) if (match := _TIME_COLUMN.fullmatch(name))]
    if not found:
        raise UsageError(f"no column of {path} is called time, timestamp, stamp or t: {', '.join(header)}")
    time_column, match = found[0]
    said = (match[1] or "").lower()
    unit = unit or ("s" if said in ("sec", "seconds") else said) or _guess_unit(first[time_column : time_column + 1])
    others = [k for k in range(len(header)) if k != time_column]
    time_source = f"column {header[time_column]!r}, {unit}"

    def to_ns(text: str) -> int:
        return _ns(text, unit)

    if are_numbers([first[k] for k in others if k < len(first)]):
        times, values = number_rows(path, time_column, to_ns, damage)
        dtype = np.dtype([(header[k] or f"column_{k}", "<f8") for k in others])
        stream = SourceStream(path.stem, "samples", dtype=dtype, clock=clock, time_source=time_source, packed=True)
        return Column(stream, times, row_loader(values))
    times, rows = text_rows(path, time_column, to_ns, damage)
    stream = SourceStream(
        path.stem, "samples", "json", clock=clock, time_source=time_source, calibration={"columns": header}
    )
    return Column(stream, times, lambda index: json.dumps(dict(zip(header, rows[index]))).encode())


def _guess_unit(texts: list[str]) -> str:
    """The unit of a stream's times: decimals are s; else by the digits of the longest, below 12 s, 15 ms, 18 us, ns."""
    if any("." in text for text in texts):
        return "s"
    digits = max((len(text.strip().lstrip("-")) for text in texts), default=0)
    return "s" if digits < 12 else "ms" if digits < 15 else "us" if digits < 18 else "ns"


def _ns(text: str, unit: str) -> int:
    divisor: int = 10 ** (9 - _UNITS[unit])
    return seconds_to_ns(text) // divisor
