"""The frames of a stream by their own numbers: where each lies in time order, and when it was received."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class FrameNumbers:
    """Frames by stream index. written: bool[n] by place, for an exporter to tick off."""

    def __init__(
        self,
        numbers: NDArray[np.uint32],
        receive_times: NDArray[np.int64] | None,
        durations: NDArray[np.int64] | None = None,
    ) -> None:
        ascending = bool((numbers[1:] >= numbers[:-1]).all())
        self._order = None if ascending else np.argsort(numbers, kind="stable")
        self._sorted = np.ascontiguousarray(numbers if self._order is None else numbers[self._order])
        self._receive_times = receive_times
        self._durations = durations
        self.written = np.zeros(len(numbers), np.bool_)

    def place(self, stream_index: int) -> int | None:
        """The position in time order of the frame with that number, None where there is none."""
        found = int(self._sorted.searchsorted(np.uint32(stream_index)))  # of the same type, or all would be converted
        if found == len(self._sorted) or self._sorted[found] != stream_index:
            return None
        return found if self._order is None else int(self._order[found])

    def received(self, place: int | None) -> int:
        """When the host got it, 0 where unknown."""
        return 0 if place is None or self._receive_times is None else int(self._receive_times[place])

    def duration(self, place: int | None) -> int:
        """How long it lasted in ns, 0 where unknown."""
        return 0 if place is None or self._durations is None else int(self._durations[place])
