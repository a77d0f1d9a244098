"""One training sample of a recording: what some streams saw over a span of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_TIME = np.iinfo(np.int64).min  # the time of a frame that is missing
NO_RESIDUAL = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Clip:
    """The frames of each stream in time order, with their times and residuals. All times in ns.

    values: per stream a list of T arrays, None where a frame is missing: pictures uint8 (h, w, 3), clouds (n, c),
    records as numbers (n, c), opaque payloads uint8 (n,). times: int64 [T] acquisition times, NO_TIME where missing.
    residuals: int64 [T], time minus the time that was asked for (0 in windows), NO_RESIDUAL where missing.
    id: place in the dataset. recording: number of the recording. number: window, first step or pair within it.
    mixed_clocks: host-stamped and hardware-stamped streams meet here, so times and residuals are not the true ones.
    """

    id: int
    recording: int
    number: int
    start_ns: int
    end_ns: int
    values: dict[str, list[NDArray[Any] | None]]
    times: dict[str, NDArray[np.int64]]
    residuals: dict[str, NDArray[np.int64]]
    mixed_clocks: bool = False
