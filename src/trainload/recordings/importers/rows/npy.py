"""Arrays in .npy files as records, a block at a time: memory does not grow with the arrays.

Source: the .npy format, versions 1 and 2 (numpy.lib.format). Objects are refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from trainload.recordings.format.streams import packed_dtype
from trainload.recordings.importers.file_blocks import BlockReader

_BLOCK_BYTES = 1 << 20
_MAX_WHOLE_BYTES = 64 << 20  # an array that cannot be read row by row


class NpyArray:
    """The array of a .npy file; `rows(start, end)` reads a part of it. Raises ValueError, OSError for a damaged file.

    Rows that the file lost at its end do not count: `len` is how many are there, `lost` how many are not.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            shape, by_column, dtype = _header(file)
            self._offset = file.tell()
        if (
            not shape
            or dtype.kind not in "biufSU"
            or not dtype.itemsize
            or shape[0] < 0
            or min(shape[1:], default=1) < 1
        ):
            raise ValueError(f"an array of {dtype} and shape {shape} cannot be a stream")
        self._stored, self._reader = dtype, BlockReader(path, block_bytes=0)
        self.shape: tuple[int, ...] = shape[1:]
        self.row_bytes = dtype.itemsize * math.prod(self.shape)
        there = max(0, path.stat().st_size - self._offset) // self.row_bytes
        self._whole = self._read_whole(path, shape) if (by_column and self.shape) or dtype.kind == "U" else None
        self._count = shape[0] if self._whole is not None else min(shape[0], there)
        self.lost = shape[0] - self._count
        self.dtype: np.dtype[Any] = dtype.newbyteorder("<") if self._whole is None else self._whole.dtype

    def __len__(self) -> int:
        return self._count

    def rows(self, start: int, end: int) -> NDArray[Any]:
        """Rows `start` to `end`, little-endian."""
        if self._whole is not None:
            return self._whole[start:end]
        data = self._reader.read_at(self._offset + start * self.row_bytes, (end - start) * self.row_bytes)
        return np.frombuffer(data, self._stored).reshape(end - start, *self.shape).astype(self.dtype, copy=False)

    def _read_whole(self, path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
        """Arrays stored by column, and text, which becomes UTF-8."""
        if self.row_bytes * shape[0] > _MAX_WHOLE_BYTES:
            raise ValueError(f"an array stored by column, or of text, of more than {_MAX_WHOLE_BYTES >> 20} MiB")
        array: NDArray[Any] = np.load(path, allow_pickle=False)
        if array.dtype.kind == "U":
            array = np.char.encode(array, "utf-8")
        return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is stored by column, and type."""
    try:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, by_column, dtype = read(file)
    except (SyntaxError, TokenError, TypeError, RecursionError) as error:  # numpy parses it as a Python literal
        raise ValueError(f"no header of an array: {error}") from error
    return shape, by_column, dtype


class NpyRecords:
    """Arrays of equal length as one structured array with a field for each; a block of rows is kept.

    Raises ValueError for rows that are too large for a stream.
    """

    def __init__(self, arrays: dict[str, NpyArray]) -> None:
        self._arrays = arrays
        self.dtype = np.dtype([(name, array.dtype, array.shape) for name, array in arrays.items()])
        packed_dtype(self.dtype)  # raises ValueError for what a stream cannot carry
        self._count = min(len(array) for array in arrays.values())
        self._block_rows = max(1, _BLOCK_BYTES // self.dtype.itemsize)
        self._start = 0
        self._block: NDArray[Any] = np.empty(0, self.dtype)

    def __len__(self) -> int:
        return self._count

    def record(self, index: int) -> bytes:
        """Record `index`."""
        if not self._start <= index < self._start + len(self._block):
            self._start = index - index % self._block_rows
            end = min(self._start + self._block_rows, self._count)
            self._block = np.zeros(end - self._start, self.dtype)
            for name, array in self._arrays.items():
                self._block[name] = array.rows(self._start, end)
        data: bytes = self._block[index - self._start].tobytes()
        return data
