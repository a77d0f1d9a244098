"""How a payload lies that is no plain array: rows with padding behind them, big-endian numbers (key `layout` of STRM).

The law is docs/spec/hyperframe.md, section 7. Payloads stay as a driver wrote them; the array is made when it is asked
for. Bytes between the fields of a record are fields too, called _gap_N, and no part of the array.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

GAP_PREFIX = "_gap_"
MAX_ROW_BYTES = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """dtype, shape: of the array, as the format spells them. row_bytes: from one row to the next, 0: without padding.

    A row is shape[1:] elements; the last row may end with its last element. big_endian: the numbers of the payload are.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    big_endian: bool = False
    row_bytes: int = 0

    def array(self, data: memoryview) -> NDArray[Any]:
        """The payload as native numbers without padding: of `shape`, or (n,) of records. Raises ValueError."""
        stored = self.dtype.newbyteorder(">") if self.big_endian else self.dtype
        if self.row_bytes:
            elements = self._rows(data, stored)
        else:
            elements = np.frombuffer(data, stored).reshape(self.shape)
        native = np.ascontiguousarray(elements, self.dtype.newbyteorder("="))
        return native.reshape(-1) if self.dtype.names is not None else native

    def _rows(self, data: memoryview, stored: np.dtype[Any]) -> NDArray[Any]:
        rows, *inner = self.shape
        row_bytes = math.prod(inner) * stored.itemsize
        if not (rows - 1) * self.row_bytes + row_bytes <= len(data) <= rows * self.row_bytes:
            raise ValueError(f"{len(data):,} bytes are not {rows:,} rows of {self.row_bytes:,} bytes")
        strides = [stored.itemsize * math.prod(inner[k + 1 :]) for k in range(len(inner))]
        return np.ndarray(self.shape, stored, data, strides=(self.row_bytes, *strides))

    def check(self) -> None:
        """Raises ValueError for rows that do not fit."""
        if not 0 <= self.row_bytes <= MAX_ROW_BYTES:
            raise ValueError(f"row_bytes must be from 0 to {MAX_ROW_BYTES}, not {self.row_bytes!r}")
        if self.row_bytes:
            if min(self.shape, default=0) < 1 or len(self.shape) < 2:
                raise ValueError(f"rows with padding need at least two sizes above 0, not {self.shape}")
            if math.prod(self.shape[1:]) * self.dtype.itemsize > self.row_bytes:
                raise ValueError(f"rows of {self.row_bytes} bytes do not hold {self.shape[1:]} of {self.dtype}")


def without_gaps(array: NDArray[Any]) -> NDArray[Any]:
    """A structured array without the fields that are gaps, as a view; any other array as it is."""
    names = _fields_that_count(array.dtype) if array.dtype.names is not None else None
    return array if names is None else array[names]


@lru_cache(maxsize=256)
def _fields_that_count(dtype: np.dtype[Any]) -> list[str] | None:
    """None where there is no gap, or nothing else."""
    names = dtype.names or ()
    kept = [name for name in names if not (name.startswith(GAP_PREFIX) and dtype[name].kind == "V")]
    return kept if 0 < len(kept) < len(names) else None
