"""A frame's payload as numbers that a model takes."""

from __future__ import annotations

from typing import Any

from numpy.lib.recfunctions import structured_to_unstructured
from numpy.typing import NDArray

from trainload.formats.hyperframe_streams import TIME_FIELD
from trainload.reading.frame import Frame


def frame_value(frame: Frame) -> NDArray[Any]:
    """The frame's array; a structured one as plain columns: (n, c), without the time field of packed samples.

    Pictures are decoded: uint8 (h, w, 3). Raises FormatError or SampleError for a payload that is not what its stream
    says.
    """
    return plain_columns(frame.array())


def plain_columns(array: NDArray[Any]) -> NDArray[Any]:
    """A structured array (n,) as (n, c) of one number type; an array of another kind, or with text in it, as it is."""
    names = [name for name in array.dtype.names or () if name != TIME_FIELD]
    if not names or any(array.dtype[name].base.kind not in "biuf" for name in names):
        return array
    columns: NDArray[Any] = structured_to_unstructured(array[names])
    return columns


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that nobody can write through, for values that many samples share."""
    view = array.view()
    view.flags.writeable = False
    return view
