"""How a stream of several lanes passes through two arenas, so that each block is read once and whole. Pure.

Lanes reach the ends of their groups at different positions. So a block that a segment needs first is brought by it with
all its samples, and those that later segments need are carried over from arena to arena.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainload.images.loading.layout import MAX_GAP_BYTES, ReadPlan, aligned, plan_reads
from trainload.images.loading.picture_sets import Places


def lane_segments(
    places: Places, stream: NDArray[np.int64], limit_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The segments of a stream (int64 [segments + 1] bounds) and the segment that brings each position (int64 [n]).

    A segment's arena holds the samples of the units that first occur in it, whole units where all their samples occur,
    and those that earlier segments brought and that are not consumed yet. None where some arena would be too small.
    """
    count = len(stream)
    if not count:
        return None
    unit = places.unit[stream]
    present, first, row = np.unique(unit, return_index=True, return_inverse=True)
    size = aligned(places.size[stream])
    size[np.append(False, stream[1:] == stream[:-1])] = 0  # a repeat in a row takes no room of its own
    costs = np.bincount(row, size).astype(np.int64)
    occurs = np.bincount(row, size > 0).astype(np.int64)
    whole = aligned(places.unit_sizes[present])
    with_gaps = np.minimum(costs + occurs * MAX_GAP_BYTES, np.maximum(costs, whole))
    costs = np.where(occurs >= places.unit_counts[present], np.maximum(costs, whole), with_gaps)
    filled = np.zeros(count + 1, np.int64)
    filled[first + 1] = costs
    filled = np.cumsum(filled)
    changes = np.zeros(count + 1, np.int64)  # of the bytes that a segment which begins there is handed
    np.add.at(changes, first[row] + 1, size)
    np.subtract.at(changes, np.arange(1, count + 1), size)
    carried = np.cumsum(changes)
    starts = np.append(np.sort(first), count)  # of units: a segment begins with one
    cuts = [0]
    while cuts[-1] < count:
        before, room = filled[cuts[-1]], limit_bytes - carried[cuts[-1]]
        fits = int(np.searchsorted(filled, before + room, side="right")) - 1
        if fits <= cuts[-1]:
            return None
        if fits < count:  # in the second half of what fits, where most lanes have come to the end of a group
            half = max(cuts[-1] + 1, int(np.searchsorted(filled, before + room // 2)))
            some = starts[np.searchsorted(starts, half) : np.searchsorted(starts, fits, side="right")]
            fits = int(some[np.argmin(carried[some])]) if len(some) else fits
        cuts.append(fits)
    segments = np.array(cuts, np.int64)
    return segments, np.searchsorted(segments, first[row], side="right") - 1


def plan_with_carried(
    places: Places, brought: NDArray[np.int64], carried: NDArray[np.int64], limit_bytes: int
) -> ReadPlan:
    """The layout of an arena that takes some samples from storage and others from the arena before it.

    brought, carried: their ids, which have none in common. No read brings what is carried: there read_of is -1.
    """
    mine = np.unique(carried)
    sizes = aligned(places.size[mine])
    edges = np.append(0, np.cumsum(sizes))
    reads = plan_reads(places, brought, limit_bytes=limit_bytes - int(edges[-1]))
    offsets = (reads.size_bytes + edges[:-1]).astype(np.uint64)
    ids = np.concatenate([reads.ids, mine])
    order = np.argsort(ids)
    return ReadPlan(
        units=reads.units,
        starts=reads.starts,
        sizes=reads.sizes,
        place=reads.place,
        whole=reads.whole,
        size_bytes=reads.size_bytes + int(edges[-1]),
        ids=ids[order],
        offsets=np.concatenate([reads.offsets, offsets])[order],
        read_of=np.concatenate([reads.read_of, np.full(len(mine), -1)])[order],
    )
