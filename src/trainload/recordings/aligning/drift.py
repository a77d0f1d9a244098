"""Offset, drift and jitter of a stream: the straight line through its signed residuals, fitted by least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.aligning.match import median_period

MAX_DRIFT_PPM = 1000.0  # crystals stay below 100; what exceeds this is no drift


@dataclass(frozen=True, slots=True)
class Fit:
    """offset_ns at the first time, drift in parts per million, jitter_ns: standard deviation around the line.

    All NaN without residuals; drift is 0 for a single time. unwrapped: jumps of whole periods were taken out first.
    """

    offset_ns: float
    drift_ppm: float
    jitter_ns: float
    unwrapped: bool


def fit_drift(times: NDArray[np.int64], residual: NDArray[np.int64], stream_times: NDArray[np.int64]) -> Fit:
    """The line through `residual` over `times`, both int64[n] ns.

    The nearest sample of a clock that drifts changes after half a period, and the residual jumps by one: a saw-tooth,
    no line. So the fit is also tried on residuals unwrapped by the stream's median period, and that one counts where
    it leaves less than half the spread and no more drift than clocks have (rates that do not divide evenly look like
    drift of percents).
    """
    if not len(times):
        return Fit(np.nan, np.nan, np.nan, False)
    plain = _line(times, residual.astype(np.float64))
    if len(stream_times) < 3 or len(times) < 3:
        return plain
    period = median_period(stream_times)
    if period <= 0:
        return plain
    order = np.argsort(times, kind="stable")
    unrolled = np.unwrap(residual[order].astype(np.float64), period=period)
    straight = _line(times[order], unrolled)
    if straight.jitter_ns < plain.jitter_ns / 2 and abs(straight.drift_ppm) <= MAX_DRIFT_PPM:
        return Fit(straight.offset_ns, straight.drift_ppm, straight.jitter_ns, True)
    return plain


def _line(times: NDArray[np.int64], residual: NDArray[np.float64]) -> Fit:
    since = (times - times.min()).astype(np.float64)
    middle, mean = since.mean(), residual.mean()
    spread = since - middle
    square = float(spread @ spread)
    slope = float(spread @ (residual - mean)) / square if square else 0.0
    left = residual - mean - slope * spread
    return Fit(float(mean - slope * middle), slope * 1e6, float(left.std()), False)
