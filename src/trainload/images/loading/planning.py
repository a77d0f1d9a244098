"""From an order and a position to what a run does: the rank's stream, its batches, its segments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.images.loading.lane_layout import lane_segments
from trainload.images.loading.layout import ALIGNMENT, buffer_segments
from trainload.images.loading.picture_sets import Places
from trainload.machine.numa import CpuSets
from trainload.running.order import Cut, OrderRule, block_groups, cut_order
from trainload.running.selection import Selection
from trainload.running.slices import RunPlan

MOST_SLICE = 16  # pictures that a decode worker takes at a time,
SLICE_BYTES = 2 << 20  # or about this much of large ones: stopping waits for a slice
LANE_SLACK = 2  # blocks beside a group of each lane: lanes do not reach the end of one together


@dataclass(frozen=True, slots=True)
class Workforce:
    """How many threads do the work, and how far ahead. Nothing of it changes what a batch holds.

    workers: that decode; 0: the consumer does. io_workers: that read. prefetch: batches in the making. verify: check
    blocks as they arrive. cpus: what these threads are bound to.
    """

    workers: int
    io_workers: int
    prefetch: int
    verify: bool
    cpus: CpuSets = ()


class Planner:
    """Makes the plans of one loader's runs, and keeps the one that was made ahead.

    places: where samples lie, None where nothing is read. has_blocks: units are
    blocks. whole_batches: a batch is one piece of work, since a sample costs next to nothing.
    """

    def __init__(
        self,
        selection: Selection,
        cut: Cut,
        workforce: Workforce,
        *,
        places: Places | None,
        has_blocks: bool,
        whole_batches: bool = False,
    ) -> None:
        self._selection = selection
        self._cut = cut
        self._workforce = workforce
        self._places = places
        self._has_blocks = has_blocks
        self._slice_size = cut.batch_size
        if not whole_batches:
            size = _slice_size(cut.batch_size, workforce.workers, places, selection.ids)
            self._slice_size = max(1, size // selection.repeat) * selection.repeat  # a picture is in one slice
        self._ready: tuple[tuple[object, ...], RunPlan] | None = None

    def plan(self, rule: OrderRule, epoch: int, position: int, buffer_bytes: int | None) -> RunPlan:
        """The plan of this rank from global position `position` of `epoch` on.

        buffer_bytes: the size of one of the two arenas that the stream passes through; None where all stays in memory.
        """
        ready = self._ready
        if ready is not None and ready[0] == (rule, epoch, position, buffer_bytes):
            return ready[1]
        return self._make(rule, epoch, position, buffer_bytes)

    def prepare(self, rule: OrderRule, epoch: int, buffer_bytes: int | None) -> RunPlan:
        """The plan for a whole epoch, made now (on any thread): `plan` will give this very object."""
        plan = self.plan(rule, epoch, 0, buffer_bytes)
        self._ready = (rule, epoch, 0, buffer_bytes), plan
        return plan

    def _make(self, rule: OrderRule, epoch: int, position: int, buffer_bytes: int | None) -> RunPlan:
        selection, places, force = self._selection, self._places, self._workforce
        in_turn = selection.repeat if rule.lanes else 0
        share = cut_order(self._cut, len(selection), position, in_turn=in_turn)
        stream, draws = selection.order(rule, epoch)[share.positions], selection.draws(rule, epoch)
        segments, brought = np.array([0, len(stream)], np.int64), None
        lanes = lane_segments(places, stream, buffer_bytes) if rule.lanes and places and buffer_bytes else None
        if lanes is not None:
            segments, brought = lanes
        elif places is not None and buffer_bytes is not None:
            groups = None
            if self._has_blocks and rule.shuffle in ("none", "group"):
                groups = block_groups(rule, epoch, selection.blocks)[places.unit[stream]]
            segments = _segments(places, stream, groups, buffer_bytes)
        return RunPlan(
            seed=rule.seed,
            epoch=epoch,
            stream=stream,
            share=share,
            segments=segments,
            workers=force.workers,
            io_workers=force.io_workers,
            prefetch=force.prefetch * self._cut.devices,
            verify=force.verify,
            cpus=force.cpus,
            slice_size=self._slice_size,
            draws=None if draws is None else draws[share.positions],
            brought=brought,
        )


def _segments(
    places: Places, stream: NDArray[np.int64], groups: NDArray[np.integer] | None, limit_bytes: int
) -> NDArray[np.int64]:
    """As `buffer_segments`, where a sample that comes several times in a row takes the room of one."""
    first = np.flatnonzero(np.append(True, stream[1:] != stream[:-1])[: len(stream)])
    if len(first) == len(stream):
        return buffer_segments(places, stream, groups, limit_bytes)
    bounds = buffer_segments(places, stream[first], None if groups is None else groups[first], limit_bytes)
    segments: NDArray[np.int64] = np.append(first, len(stream))[bounds]
    return segments


def _slice_size(batch_size: int, workers: int, places: Places | None, ids: NDArray[np.int64]) -> int:
    most = min(MOST_SLICE, -(-batch_size // workers))
    if places is None or not len(ids):
        return most
    return max(1, min(most, int(SLICE_BYTES / max(1.0, float(places.size[ids].mean())))))


def needed_bytes(places: Places, ids: NDArray[np.int64]) -> int:
    """The arena that holds all of `ids` at once, at most."""
    if len(ids) >= len(places.unit):
        return int(_aligned_sum(places.unit_sizes))
    return int(_aligned_sum(places.size[np.unique(ids)]))


def buffer_blocks(rule: OrderRule, ranks: int, devices: int) -> int:
    """Blocks of one of the two arenas: a group, under "lanes" one of each lane of this process and LANE_SLACK more.

    ranks: that share an epoch, each device for itself. devices: of this process.
    """
    if not rule.lanes:
        return rule.group_blocks
    return -(-rule.lanes // ranks) * devices * (rule.group_blocks + LANE_SLACK)


def buffer_size(places: Places, ids: NDArray[np.int64], group_bytes: int) -> int:
    """One of the two arenas: a group of blocks, no more than the samples need, no less than the largest unit."""
    used = np.flatnonzero(np.bincount(places.unit[ids])) if len(ids) else np.empty(0, np.int64)
    units = places.unit_sizes[used]
    largest = int(_aligned_sum(units.max(initial=0)))
    return max(largest, min(group_bytes, int(_aligned_sum(units))))


def _aligned_sum(sizes: NDArray[np.int64] | np.int64) -> np.int64:
    return np.sum(-(-sizes // ALIGNMENT) * ALIGNMENT)
