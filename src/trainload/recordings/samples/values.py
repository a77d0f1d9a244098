"""A frame's payload as numbers that a model takes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured
from numpy.typing import NDArray

from trainload.recordings.format.streams import TIME_FIELD
from trainload.recordings.reading.frame import Frame


def frame_value(frame: Frame) -> NDArray[Any]:
    """The frame's array; a structured one as plain columns: (n, c), without the time field of packed samples.

    Pictures are decoded: uint8 (h, w, 3). Raises FormatError or SampleError for a payload that is not what its stream
    says.
    """
    return plain_columns(frame.array())


def plain_columns(array: NDArray[Any]) -> NDArray[Any]:
    """A structured array (n,) as (n, c) of one number type; an array of another kind, or with text in it, as it is."""
    if array.dtype.names is None:
        return array
    columns = _columns_of(array.dtype)
    if columns is None:
        return array
    names, base, first, end = columns
    if base is None or array.ndim != 1:
        with np.errstate(invalid="ignore"):  # a NaN that signals is a NaN, also where it is widened
            numbers: NDArray[Any] = structured_to_unstructured(array[names])
        return numbers
    return np.ascontiguousarray(array).view(base).reshape(len(array), array.itemsize // base.itemsize)[:, first:end]


@lru_cache(maxsize=256)
def _columns_of(dtype: np.dtype[Any]) -> tuple[list[str], np.dtype[Any] | None, int, int] | None:
    """(names, base, first, end): the fields without the time, and where a record seen as a row of `base` has them.

    base is None where they are of several types or have gaps. The whole is None where there are no numbers only.
    """
    names = [name for name in dtype.names or () if name != TIME_FIELD]
    if not names or any(dtype[name].base.kind not in "biuf" for name in names):
        return None
    base, at = dtype[names[0]].base, dtype.fields[names[0]][1]  # type: ignore[index]
    first = at
    for name in names:
        if dtype[name].base != base or dtype.fields[name][1] != at:  # type: ignore[index]
            return names, None, 0, 0
        at += dtype[name].itemsize
    if first % base.itemsize or dtype.itemsize % base.itemsize or not base.isnative:
        return names, None, 0, 0
    return names, base, first // base.itemsize, at // base.itemsize


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that nobody can write through, for values that many samples share."""
    view = array.view()
    view.flags.writeable = False
    return view
