"""From an order and a position to what a run does: the rank's stream, its batches, its buffer windows. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainload.loading.order import Cut, OrderRule, block_groups, cut_order
from trainload.loading.reads import ALIGNMENT, buffer_windows
from trainload.loading.selection import Selection
from trainload.loading.sets import Places
from trainload.loading.workers import RunPlan

MOST_SLICE = 16  # pictures that a decode worker takes at a time


def plan_run(
    selection: Selection,
    rule: OrderRule,
    cut: Cut,
    epoch: int,
    position: int,
    *,
    labels: NDArray[np.int32],
    places: Places | None,
    has_blocks: bool,
    buffer_bytes: int | None,
    workers: int,
    io_workers: int,
    prefetch: int,
    verify: bool,
) -> RunPlan:
    """The plan of this rank from global position `position` of `epoch` on.

    buffer_bytes: the size of one of the two arenas that the stream passes through; None where all stays in memory.
    """
    share = cut_order(cut, len(selection), position)
    stream = selection.order(rule, epoch)[share.positions]
    windows = np.array([0, len(stream)], np.int64)
    if places is not None and buffer_bytes is not None:
        groups = None
        if has_blocks and rule.shuffle in ("none", "group"):
            groups = block_groups(rule, epoch, selection.blocks)[places.unit[stream]]
        windows = buffer_windows(places, stream, groups, buffer_bytes)
    slice_size = min(MOST_SLICE, -(-cut.batch_size // workers))
    return RunPlan(rule.seed, epoch, stream, share, windows, labels, workers, io_workers, prefetch, slice_size, verify)


def needed_bytes(places: Places, ids: NDArray[np.int64]) -> int:
    """The arena that holds all of `ids` at once, at most."""
    if len(ids) >= len(places.unit):
        return int(_aligned_sum(places.unit_sizes))
    return int(_aligned_sum(places.size[np.unique(ids)]))


def buffer_size(places: Places, ids: NDArray[np.int64], group_bytes: int) -> int:
    """One of the two arenas: a group of blocks, no more than the samples need, no less than the largest unit."""
    used = np.flatnonzero(np.bincount(places.unit[ids])) if len(ids) else np.empty(0, np.int64)
    units = places.unit_sizes[used]
    largest = int(_aligned_sum(units.max(initial=0)))
    return max(largest, min(group_bytes, int(_aligned_sum(units))))


def _aligned_sum(sizes: NDArray[np.int64] | np.int64) -> np.int64:
    return np.sum(-(-sizes // ALIGNMENT) * ALIGNMENT)
