"""Many times of a stream at once: the nearest frame of each. Shared by the datasets that ask for times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.aligning.match import Nearest, Times
from trainload.recordings.aligning.recording import RecordingTimes
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.samples.values import plain_columns, read_only


def nearest_positions(
    times: NDArray[np.int64], wanted: NDArray[np.int64], max_ns: int | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(positions, residuals), int64 of wanted's shape: the frame nearest to each time, -1 where none is near enough."""
    match = Nearest(max_ns).match(Times(wanted.ravel()), Times(times))
    return match.index.reshape(wanted.shape), match.residual_ns.reshape(wanted.shape)


def packed_samples(reader: HyperframeReader, stream: str) -> tuple[NDArray[np.int64], NDArray[np.generic]] | None:
    """(times, values) of a packed stream, one row per sample, all in memory; None for a stream of plain frames."""
    if not reader.streams[stream].packed:
        return None
    timed = RecordingTimes(reader)
    return timed.timestamps(stream), read_only(plain_columns(timed.values(stream)))
