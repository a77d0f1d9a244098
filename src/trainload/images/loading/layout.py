"""Which bytes must be read for some samples, and where each sample then lies in the buffer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.images.loading.picture_sets import Places
from trainload.storage.read_plan import join_requests

MAX_GAP_BYTES = 64 << 10  # reading on over this much costs less than another read
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Reads that bring all of `ids` into one buffer of `size_bytes`.

    Read k takes sizes[k] bytes of units[k] from starts[k] to place[k] in the buffer; whole[k] says that this is the
    whole unit. ids: int64 [n], unique, ascending. offsets: uint64 [n], where each of them lies in the buffer.
    read_of: int64 [n], the read that brings it.
    """

    units: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    place: NDArray[np.int64]
    whole: NDArray[np.bool_]
    size_bytes: int
    ids: NDArray[np.int64]
    offsets: NDArray[np.uint64]
    read_of: NDArray[np.int64]

    def covers(self, ids: NDArray[np.int64]) -> bool:
        """True where all of `ids` are among the planned."""
        rows = np.searchsorted(self.ids, ids)
        return bool((rows < len(self.ids)).all() and (self.ids[rows] == ids).all())

    def find(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of `ids` in this plan's tables; every one must be among the planned."""
        if len(self.ids) and self.ids[-1] == len(self.ids) - 1:  # all samples of the set: the id is the row
            return ids
        return np.searchsorted(self.ids, ids)


def plan_reads(places: Places, ids: NDArray[np.int64], *, limit_bytes: int | None = None) -> ReadPlan:
    """Plan the reads for `ids` (any order, repeats allowed).

    A unit whose samples are all wanted is read whole, so that its checksum can be checked; of other units, neighbours
    are read together over gaps of at most 64 KB. Where that needs more than `limit_bytes`, no gaps are read: then the
    buffer needs at most the sum of the sizes rounded up to 64.
    """
    plan = _plan(places, unique_ids(ids), gap=MAX_GAP_BYTES, whole_units=True)
    if limit_bytes is not None and plan.size_bytes > limit_bytes:
        return _plan(places, plan.ids, gap=ALIGNMENT - 1, whole_units=False)
    return plan


def _plan(places: Places, ids: NDArray[np.int64], *, gap: int, whole_units: bool) -> ReadPlan:
    unit = places.unit[ids]
    present, row, counts = np.unique(unit, return_inverse=True, return_counts=True)
    whole = ((counts == places.unit_counts[present]) & whole_units)[row]
    start = np.where(whole, 0, places.start[ids])
    size = np.where(whole, places.unit_sizes[unit], places.size[ids])
    reads = join_requests(start, size, files=unit, max_gap=gap)
    sizes = reads.ends - reads.starts
    edges = np.concatenate([[0], np.cumsum(aligned(sizes))])
    read_of = np.empty(len(ids), np.int64)
    read_of[reads.order] = np.repeat(np.arange(len(reads)), np.diff(reads.bounds))
    offsets = (edges[read_of] + places.start[ids] - reads.starts[read_of]).astype(np.uint64)
    first = reads.order[reads.bounds[:-1]]
    return ReadPlan(unit[first], reads.starts, sizes, edges[:-1], whole[first], int(edges[-1]), ids, offsets, read_of)


def unique_ids(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The ids, ascending, each once; without sorting what is so already (a whole set)."""
    return ids if (ids[1:] > ids[:-1]).all() else np.unique(ids)


def buffer_segments(
    places: Places, ids: NDArray[np.int64], groups: NDArray[np.integer] | None, limit_bytes: int
) -> NDArray[np.int64]:
    """Cut a stream of samples into segments that each fit into a buffer of `limit_bytes`: int64 [segments + 1] bounds.

    groups: the buffer group of every sample, in stream order, or None. Where the stream visits each group once, a
    segment is whole groups, as many as surely fit; else it is as many samples as surely fit. It holds at least one.
    """
    if not len(ids):
        return np.zeros(1, np.int64)
    bounds, costs = np.arange(len(ids) + 1), aligned(places.size[ids])
    if groups is not None:
        group_starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        if len(group_starts) == len(np.unique(groups[group_starts])):
            bounds, costs = np.append(group_starts, len(ids)), _group_costs(places, ids, group_starts)
    filled = np.append(0, np.cumsum(costs))
    cuts = [0]
    while cuts[-1] < len(bounds) - 1:
        fits = int(np.searchsorted(filled, filled[cuts[-1]] + limit_bytes, side="right")) - 1
        cuts.append(max(fits, cuts[-1] + 1))
    segments: NDArray[np.int64] = bounds[cuts]
    return segments


def _group_costs(places: Places, ids: NDArray[np.int64], group_starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Buffer bytes that each group needs at most: of a unit that occurs with all its samples, the whole unit."""
    sizes = aligned(places.size[ids])
    unit = places.unit[ids]
    units = len(places.unit_sizes)
    used = np.bincount(unit, sizes, units).astype(np.int64)
    occurs = np.bincount(unit, minlength=units)
    complete = (occurs == places.unit_counts) & (occurs > 0)
    rest = np.where(complete, aligned(places.unit_sizes) - used, 0)
    group = np.repeat(np.arange(len(group_starts)), np.diff(np.append(group_starts, len(ids))))
    group_of_unit = np.zeros(units, np.int64)
    group_of_unit[unit] = group
    per_group = np.add.reduceat(sizes, group_starts) + np.bincount(group_of_unit, rest, len(group_starts))
    return per_group.astype(np.int64)


def aligned(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each size rounded up to ALIGNMENT."""
    return -(-sizes // ALIGNMENT) * ALIGNMENT
