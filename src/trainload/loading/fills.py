"""Samples on their way into memory: what is planned, what has arrived. No threads of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainload.loading.buffers import new_arena
from trainload.loading.reads import ReadPlan, plan_reads
from trainload.loading.sets import PictureSet, Places


class Fill:
    """One arena and the reads that fill it.

    ready[k]: read k has been done. left: samples that are still to be decoded from here; at 0 the arena may be filled
    anew. Two runs may fill one arena at once: they write the same bytes to the same place.
    """

    def __init__(self, arena: NDArray[np.uint8], plan: ReadPlan, left: int = 0) -> None:
        self.arena = arena
        self.plan = plan
        self.left = left
        self.ready = np.zeros(len(plan.units), np.bool_)

    def read(self, pictures: PictureSet, k: int, *, verify: bool) -> None:
        """Do read `k`, and check the block's checksum where a whole block came."""
        plan = self.plan
        place, size = int(plan.place[k]), int(plan.sizes[k])
        view = self.arena[place : place + size].data
        pictures.read(int(plan.units[k]), int(plan.starts[k]), view)
        if verify and plan.whole[k]:
            pictures.check_unit(int(plan.units[k]), view)
        self.ready[k] = True

    def holds(self, ids: NDArray[np.int64]) -> bool:
        """True where all of these samples belong here and have arrived."""
        return self.plan.covers(ids) and bool(self.ready[self.plan.read_of[self.plan.find(ids)]].all())

    def offsets(self, ids: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Where samples that belong here lie in the arena."""
        return self.plan.offsets[self.plan.find(ids)]


def resident_fill(places: Places, ids: NDArray[np.int64]) -> Fill:
    """A fill that keeps all of `ids` for good (FULLY): one arena as large as they need, nothing read yet."""
    plan = plan_reads(places, ids)
    return Fill(new_arena(plan.size_bytes), plan)


def missing_reads(fill: Fill, stream: NDArray[np.int64]) -> list[int]:
    """The reads of a fill that were not done yet, in the order in which `stream` will ask for them."""
    if fill.ready.all():
        return []
    first_use = np.full(len(fill.ready), len(stream), np.int64)
    reads = fill.plan.read_of[fill.plan.find(stream)]
    np.minimum.at(first_use, reads, np.arange(len(stream)))
    needed = np.argsort(first_use, kind="stable")
    missing: list[int] = needed[~fill.ready[needed]].tolist()
    return missing
