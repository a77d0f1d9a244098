"""Many small requests as few large reads: which bytes each read brings, and which requests it serves. Pure.

Reading on over a small gap costs less than another read, so requests that lie near each other share one.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class JoinedReads:
    """r reads that bring n requests, by place: no two overlap, and every request lies in one of them.

    starts, ends: int64 [r], the bytes [start, end) of each read. order: int64 [n], the requests by place. bounds: int64
    [r + 1]; read k brings the requests order[bounds[k] : bounds[k + 1]].
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    order: NDArray[np.intp]
    bounds: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.starts)


def join_requests(
    offsets: NDArray[np.int64],
    sizes: NDArray[np.integer[Any]],
    *,
    max_gap: int,
    max_read: int | None = None,
    files: NDArray[np.int64] | None = None,
) -> JoinedReads:
    """Few reads for many requests, of `sizes` bytes at `offsets`, which come in any order.

    max_gap: unwanted bytes that one read may carry between two requests. max_read: bytes that a read of several
    requests may have; requests that overlap share one however long it gets. files: the file of each request, numbers
    from 0; left out, all lie in one. Requests of two files share no read. Places must fit into 62 bits.
    """
    count = len(offsets)
    if not count:
        return JoinedReads(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.intp), np.zeros(1, np.intp))
    base = None if files is None else files * (int((offsets + sizes).max()) + max_gap + 1)
    place = offsets if base is None else offsets + base  # so that two files are farther apart than any gap
    order = place.argsort(kind="stable")
    start = place[order]
    end = start + sizes[order]
    reach = np.maximum.accumulate(end)  # the end of what was asked for up to here
    is_first = np.empty(count + 1, np.bool_)
    is_first[0] = is_first[count] = True
    np.greater(start[1:], reach[:-1] + max_gap, out=is_first[1:count])
    bounds = is_first.nonzero()[0]
    if max_read is not None and reach[-1] - start[0] > max_read:
        bounds = _cut(start, end, reach, bounds, max_read)
    first, last = bounds[:-1], bounds[1:] - 1
    if base is None:
        return JoinedReads(start[first], reach[last], order, bounds)
    shift = base[order[first]]
    return JoinedReads(start[first] - shift, reach[last] - shift, order, bounds)


def _cut(
    start: NDArray[np.int64], end: NDArray[np.int64], reach: NDArray[np.int64], bounds: NDArray[np.intp], max_read: int
) -> NDArray[np.intp]:
    """Cut the reads that are longer than max_read where no request reaches over the cut."""
    if (reach[bounds[1:] - 1] - start[bounds[:-1]] <= max_read).all():
        return bounds
    seams = np.flatnonzero(start[1:] >= reach[:-1]) + 1
    places, ends = seams.tolist(), end[seams].tolist()  # ends ascend: what ended before a seam starts there at most
    firsts: list[int] = []
    for first, last in pairwise(bounds.tolist()):
        while first < last:
            firsts.append(first)
            k = max(bisect_right(ends, int(start[first]) + max_read), bisect_right(places, first))
            first = places[k] if k < len(places) else last
    return np.array([*firsts, len(start)])
