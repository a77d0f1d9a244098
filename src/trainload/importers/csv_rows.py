"""Rows of a CSV file with a time in one column: numbers as float64, anything else as text. A bad line is counted."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainload.importers.source import Damage

Times = NDArray[np.int64]


def read_header(path: Path) -> tuple[list[str], list[str]]:
    """The names of the columns, and the first row."""
    with path.open(newline="") as file:
        lines = csv.reader(file)
        return [name.strip() for name in next(lines, [])], next(lines, [])


def are_numbers(words: list[str]) -> bool:
    """True where every word is a number."""
    try:
        [float(word) for word in words]
    except ValueError:
        return False
    return True


def number_rows(
    path: Path, time_column: int, to_ns: Callable[[str], int], damage: Damage
) -> tuple[Times, NDArray[np.float64]]:
    """int64 [n] times and float64 [n, columns - 1] of the other columns; 8 bytes per number in memory."""
    times, values = array("q"), array("d")
    columns = 1
    for number, line in _rows(path, damage):
        columns = len(line)
        try:
            row = [float(word) for k, word in enumerate(line) if k != time_column]
            times.append(to_ns(line[time_column]))
        except (ValueError, OverflowError) as error:
            damage.add(f"{path.name} line {number}: {error}", frames=1)
            continue
        values.extend(row)
    table = np.frombuffer(values, np.float64) if values else np.empty(0)
    return _times(times), table.reshape(len(times), columns - 1)


def text_rows(
    path: Path, time_column: int, to_ns: Callable[[str], int], damage: Damage
) -> tuple[Times, list[list[str]]]:
    """int64 [n] times and the words of every row."""
    times, rows = array("q"), []
    for number, line in _rows(path, damage):
        try:
            times.append(to_ns(line[time_column]))
        except (ValueError, OverflowError) as error:
            damage.add(f"{path.name} line {number}: {error}", frames=1)
            continue
        rows.append([word.strip() for word in line])
    return _times(times), rows


def _rows(path: Path, damage: Damage) -> Iterator[tuple[int, list[str]]]:
    with path.open(newline="", errors="replace") as file:
        lines = csv.reader(file)
        width = len(next(lines, []))
        try:
            for number, line in enumerate(lines, 2):
                if len(line) == width:
                    yield number, line
                elif line:
                    reason = f"{len(line)} columns where the header has {width}"
                    damage.add(f"{path.name} line {number}: {reason}", frames=1)
        except csv.Error as error:
            damage.add(f"{path.name}: {error}; the rest was not read", frames=1)


def _times(times: array[int]) -> Times:
    return np.frombuffer(times, np.int64) if times else np.empty(0, np.int64)
