"""Clips to one batch: stacked per stream where shapes agree, padded or listed where they vary, with masks and times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.printable import printable
from trainload.memory.pool import MemoryPool
from trainload.recordings.samples.clip import NO_RESIDUAL, NO_TIME, Clip
from trainload.running.arguments import check_choice

Values = NDArray[Any] | list[list[NDArray[Any] | None]]
Vary = Literal["pad", "list", "views"]
VARY: tuple[Vary, ...] = ("pad", "list", "views")


@dataclass(frozen=True, slots=True, repr=False)
class ClipBatch:
    """B clips. Per stream, with T the most frames that one of them has:

    values: (B, T, ...) zeros where a frame is missing, or a list of B lists of read-only frames (see `collate`).
    masks: bool (B, T), True where there is a frame. lengths: int64 (B, T) rows of each frame, its size along the first
    axis (points of a sweep, samples of a window, rows of a picture), 0 where missing, 1 for a single number; of every
    stream, whatever the data, but not for vary="views". times, residuals: int64 (B, T) ns, NO_TIME and NO_RESIDUAL
    where missing. ids, recordings, start_ns: int64 (B,). mixed_clocks: bool (B,), as in the clips. A squeezed batch
    (one frame per stream) has no T.
    """

    values: dict[str, Values]
    masks: dict[str, NDArray[np.bool_]]
    lengths: dict[str, NDArray[np.int64]]
    times: dict[str, NDArray[np.int64]]
    residuals: dict[str, NDArray[np.int64]]
    ids: NDArray[np.int64]
    recordings: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    mixed_clocks: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        shapes = [f"{printable(name)} {_shape(values)}" for name, values in self.values.items()]
        return f"ClipBatch({len(self):,} clips; {', '.join(shapes)})"

    @property
    def stacked_bytes(self) -> int:
        """Bytes of all values that were copied into one array."""
        return sum(values.nbytes for values in self.values.values() if isinstance(values, np.ndarray))


def _shape(values: Values) -> str:
    return f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else f"list of {len(values)}"


def collate(
    clips: Sequence[Clip], *, vary: Vary = "pad", squeeze: bool = False, memory: MemoryPool | None = None
) -> ClipBatch:
    """One batch of clips. squeeze: drop the axis of frames.

    vary: "pad" or "list" frames whose first axis differs; where shapes agree they are stacked. "views" stacks nothing:
    every stream is a list of B lists of the clips' own arrays, which are read-only, and nothing is copied.
    memory: where stacked values come from; left out, each has its own.
    """
    check_choice("vary", vary, VARY)
    streams = tuple(dict.fromkeys(name for clip in clips for name in clip.values))
    batch = ClipBatch(
        {},
        {},
        {},
        {},
        {},
        ids=np.array([clip.id for clip in clips], np.int64),
        recordings=np.array([clip.recording for clip in clips], np.int64),
        start_ns=np.array([clip.start_ns for clip in clips], np.int64),
        mixed_clocks=np.array([clip.mixed_clocks for clip in clips], np.bool_),
    )
    for name in streams:
        rows = [clip.values.get(name, []) for clip in clips]
        width = max(map(len, rows))
        if squeeze and width > 1:
            raise UsageError(f"squeeze asks for one frame per stream, and {name!r} has up to {width}")
        values = _stack(rows, width, vary, memory)
        columns: dict[str, NDArray[Any]] = {
            "masks": _table([[value is not None for value in row] for row in rows], width, False),
            "times": _table([clip.times.get(name, ()) for clip in clips], width, NO_TIME),
            "residuals": _table([clip.residuals.get(name, ()) for clip in clips], width, NO_RESIDUAL),
        }
        if vary != "views":
            columns["lengths"] = _table([[_rows_of(value) for value in row] for row in rows], width, 0)
        for field, column in columns.items():
            getattr(batch, field)[name] = column[:, 0] if squeeze and width else column
        batch.values[name] = values if isinstance(values, list) or not (squeeze and width) else values[:, 0]
    return batch


def _table(rows: Sequence[Any], width: int, blank: Any) -> NDArray[Any]:
    dtype = np.bool_ if blank is False else np.int64
    if all(len(row) == width for row in rows):
        return np.array(rows, dtype).reshape(len(rows), width)
    table: NDArray[Any] = np.full((len(rows), width), blank, dtype)
    for n, row in enumerate(rows):
        table[n, : len(row)] = row
    return table


def _stack(rows: Sequence[list[NDArray[Any] | None]], width: int, vary: Vary, memory: MemoryPool | None) -> Values:
    """The frames of all clips in one array where their shapes allow it."""
    if vary == "views":
        return [list(row) for row in rows]
    present = [value for row in rows for value in row if value is not None]
    shapes = {value.shape for value in present}
    if not shapes:
        return np.zeros((len(rows), width))
    tails = {(len(shape), shape[1:]) for shape in shapes}
    alike = len(tails) == 1 and len({value.dtype for value in present}) == 1
    if not alike or (len(shapes) > 1 and (vary == "list" or not present[0].ndim)):
        return [list(row) for row in rows]
    shape = next(iter(shapes)) if len(shapes) == 1 else (max(s[0] for s in shapes), *next(iter(shapes))[1:])
    values = _empty((len(rows), width, *shape), present[0].dtype, memory)
    for n, row in enumerate(rows):
        values[n, len(row) :] = np.zeros((), values.dtype)
        for t, value in enumerate(row):
            _write(values[n, t, ...], value)
    return values


def _rows_of(value: NDArray[Any] | None) -> int:
    return 0 if value is None else len(value) if value.ndim else 1


def _write(place: NDArray[Any], value: NDArray[Any] | None) -> None:
    """Fill the place of one frame, zeros behind its last row."""
    if value is None:
        place[...] = np.zeros((), place.dtype)
    elif not value.ndim:
        place[...] = value
    else:
        place[: len(value)] = value
        place[len(value) :] = np.zeros((), place.dtype)


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any], memory: MemoryPool | None) -> NDArray[Any]:
    if memory is None or dtype.hasobject:
        return np.empty(shape, dtype)
    return memory.take(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
