"""Rows of a CSV or other text file with a time in one column. A bad line is counted.

The file is read once to check every row; then a row is its time and its place, 20 bytes, and is read again when asked
for. So memory does not depend on how much a row says.
"""

from __future__ import annotations

import csv
import io
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format.streams import TIME_FIELD
from trainload.recordings.importers.file_blocks import BlockReader
from trainload.recordings.importers.source import Damage

MAX_LINE_BYTES = 1 << 20
_MAX_FIELDS = 1000
_FIRST_ROWS = 20
_EXACT = 1 << 53  # whole numbers from here on do not all fit a float64
_MIN_INT, _MAX_INT = -(1 << 63), (1 << 63) - 1

Times = NDArray[np.int64]
Words = list[str]


class Line(NamedTuple):
    """A row: its line in the file, the bytes it lies in, and its words."""

    number: int
    start: int
    size: int
    words: Words


_NOTHING = Line(0, 0, 0, [])


@dataclass(frozen=True, slots=True)
class Rows:
    """The good rows of the text file at `path`. times: int64[n] ns. starts, sizes: the bytes of each row."""

    path: Path
    times: Times
    starts: NDArray[np.int64]
    sizes: NDArray[np.int32]
    reader: BlockReader

    def __len__(self) -> int:
        return len(self.times)

    def line(self, index: int) -> bytes:
        """Row `index` as it lies in the file, without the end of its line."""
        return self.reader.read_at(int(self.starts[index]), int(self.sizes[index])).rstrip(b"\r\n")

    def csv_words(self, index: int) -> Words:
        """Row `index` of a CSV file."""
        row = next(csv.reader(io.StringIO(_text(self.line(index)), newline="")))
        return [word.strip() for word in row]

    def words(self, index: int) -> Words:
        """Row `index` of a file whose words lie apart by spaces."""
        return _text(self.line(index)).split()


def read_header(path: Path) -> tuple[Words, list[Words]]:
    """The names of the columns, and the first rows that have as many; empty where none can be read."""
    found: list[Words] = []
    try:
        with path.open("rb") as file:
            found.extend(line.words for line in islice(_csv_lines(file), 1 + _FIRST_ROWS))
    except (OSError, csv.Error, ValueError):
        pass  # what is wrong is counted when the rows are read
    header = [name.strip() for name in found[0]] if found else []
    return header, [words for words in found[1:] if len(words) == len(header)]


def are_numbers(rows: Sequence[Words], columns: Sequence[int]) -> bool:
    """True where a stream can have so many fields, and most rows have a number in each of these columns."""
    good = sum(all(map(_is_number, (words[k] for k in columns))) for words in rows)
    return 0 < len(columns) <= _MAX_FIELDS and 2 * good > len(rows)


def csv_rows(
    path: Path, time_column: int, to_ns: Callable[[str], int], damage: Damage, check: Callable[[Words], None]
) -> Rows:
    """The rows of a CSV file below its header. `check` raises ValueError for words that are no row."""
    width = 0

    def below_header(file: BinaryIO) -> Iterator[Line]:
        nonlocal width
        lines = _csv_lines(file)
        width = len(next(lines, _NOTHING).words)
        yield from lines

    def is_row(words: Words) -> None:
        if len(words) != width:
            raise ValueError(f"{len(words)} columns where the header has {width}")
        check(words)

    return _rows(path, below_header, time_column, to_ns, damage, is_row)


def spaced_rows(
    path: Path, to_ns: Callable[[str], int], damage: Damage, check: Callable[[Words], None]
) -> tuple[Rows, list[str]]:
    """Rows of words with spaces between, the first of them a time; and the lines that begin with "#", the comments."""
    comments: list[str] = []

    def lines(file: BinaryIO) -> Iterator[Line]:
        start = 0
        for number, raw in enumerate(_raw_lines(file), 1):
            words = _text(raw).split()
            if words and words[0].startswith("#"):
                comments.append(_text(raw).strip())
            elif words:
                yield Line(number, start, len(raw), words)
            start += len(raw)

    return _rows(path, lines, 0, to_ns, damage, check), comments


def any_words(words: Words) -> None:
    """A check that every row passes."""


class NumberColumns:
    """Rows of numbers as records: float64, or int64 for a column of whole numbers that a float64 would round.

    names: of the columns; a name that comes twice gets a number. columns: which words of a row they are.
    """

    def __init__(self, names: Sequence[str], columns: Sequence[int]) -> None:
        self.names = unique_names(names)
        self._columns = list(columns)
        self._whole: set[int] = set()

    def check(self, words: Words) -> None:
        """Raises ValueError for a row with a word that is no number."""
        for k in self._columns:
            value = float(words[k])
            if not -_EXACT < value < _EXACT and k not in self._whole and _is_whole(words[k]):
                self._whole.add(k)

    @property
    def dtype(self) -> np.dtype[Any]:
        """After every row was checked."""
        kinds = ["<i8" if k in self._whole else "<f8" for k in self._columns]
        return np.dtype(list(zip(self.names, kinds)))

    def packer(self) -> Callable[[Words], bytes]:
        """Words of a row to a record of `dtype`. It raises ValueError where a whole number has a fraction after all."""
        layout = struct.Struct("<" + "".join("q" if k in self._whole else "d" for k in self._columns))
        parsers = [(k, _whole if k in self._whole else float) for k in self._columns]
        return lambda words: layout.pack(*(parse(words[k]) for k, parse in parsers))


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, a nameless one called column_N, one that is taken (or is TIME_FIELD) with a number behind it."""
    found: list[str] = []
    for k, name in enumerate(names):
        plain = given = name or f"column_{k}"
        count = 1
        while given in found or given == TIME_FIELD:
            count += 1
            given = f"{plain}_{count}"
        found.append(given)
    return found


def _rows(
    path: Path,
    lines: Callable[[BinaryIO], Iterator[Line]],
    time_column: int,
    to_ns: Callable[[str], int],
    damage: Damage,
    check: Callable[[Words], None],
) -> Rows:
    times, starts, sizes = array("q"), array("q"), array("i")
    try:
        with path.open("rb") as file:
            for number, start, size, words in lines(file):
                try:
                    check(words)
                    times.append(to_ns(words[time_column]))
                except (ValueError, OverflowError, IndexError) as error:
                    damage.add(f"{path.name} line {number}: {error}", frames=1)
                    continue
                starts.append(start)
                sizes.append(size)
    except (OSError, csv.Error, ValueError) as error:
        damage.add(f"{path.name}: {error}; the rest was not read", frames=1)
    return Rows(path, _numbers(times), _numbers(starts), _numbers(sizes), BlockReader(path))


def _csv_lines(file: BinaryIO) -> Iterator[Line]:
    """Rows, which may go over several lines where quotes say so; empty ones are left out."""
    taken = start = 0

    def lines() -> Iterator[str]:
        nonlocal taken
        for raw in _raw_lines(file):
            taken += len(raw)
            yield _text(raw)

    reader = csv.reader(lines())
    for words in reader:
        if words:
            yield Line(reader.line_num, start, taken - start, words)
        start = taken


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {MAX_LINE_BYTES:,} bytes")
        yield line


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").removeprefix("\ufeff")


def _whole(word: str) -> int:
    try:
        number = int(word)
    except ValueError:
        value = float(word)
        number = int(value) if value.is_integer() else _MAX_INT + 1
    if not _MIN_INT <= number <= _MAX_INT:
        raise ValueError(f"{word!r} in a column of whole numbers")
    return number


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _is_whole(word: str) -> bool:
    try:
        return _MIN_INT <= int(word) <= _MAX_INT
    except ValueError:
        return False


def _numbers(found: array[int]) -> Any:
    return np.frombuffer(found, f"<i{found.itemsize}") if found else np.empty(0, f"<i{found.itemsize}")
