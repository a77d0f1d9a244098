"""Samples on their way into memory: what is planned, what has arrived, what failed. No threads of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainload.loading.buffers import new_arena
from trainload.loading.reads import ReadPlan, plan_reads
from trainload.loading.sets import PictureSet, Places


class Fill:
    """One arena and the reads that fill it.

    order: the reads in the order in which they should be done. ready[k]: read k has been done, or has failed with
    errors[k]. left: samples that are still to be decoded from here; at 0 the arena may be filled anew.
    """

    def __init__(self, arena: NDArray[np.uint8], plan: ReadPlan, left: int = 0) -> None:
        self.arena = arena
        self.plan = plan
        self.left = left
        self.order: Sequence[int] = range(len(plan.units))
        self.ready = np.zeros(len(plan.units), np.bool_)
        self.errors: dict[int, Exception] = {}

    def read(self, pictures: PictureSet, k: int, *, verify: bool) -> None:
        """Do read `k` and check the block's checksum where a whole block came. What goes wrong is kept for `take`."""
        plan = self.plan
        place, size = int(plan.place[k]), int(plan.sizes[k])
        view = self.arena[place : place + size].data
        try:
            pictures.read(int(plan.units[k]), int(plan.starts[k]), view)
            if verify and plan.whole[k]:
                pictures.check_unit(int(plan.units[k]), view)
        except Exception as error:
            self.errors[k] = error
        self.ready[k] = True

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Where the samples of these rows of the plan lie in the arena. Raises what their reads raised."""
        if self.errors:
            for k in self.plan.read_of[rows]:
                if k in self.errors:
                    raise self.errors[k]
        return self.plan.offsets[rows]

    @property
    def complete(self) -> bool:
        """True once every read is done and none failed."""
        return bool(self.ready.all()) and not self.errors

    def holds(self, rows: NDArray[np.int64]) -> bool:
        """True once the reads of all these rows are done."""
        return bool(self.ready[self.plan.read_of[rows]].all())


def resident_fill(places: Places, ids: NDArray[np.int64]) -> Fill:
    """A fill that keeps all of `ids` for good (FULLY): one arena as large as they need, nothing read yet."""
    plan = plan_reads(places, ids)
    return Fill(new_arena(plan.size_bytes), plan)


def order_by_need(fill: Fill, stream: NDArray[np.int64]) -> None:
    """Let the missing reads of a resident fill come in the order in which `stream` will ask for them."""
    fill.ready[list(fill.errors)] = False  # a read that failed is tried again
    fill.errors = {}
    first_use = np.full(len(fill.ready), len(stream), np.int64)
    reads = fill.plan.read_of[fill.plan.find(stream)]
    np.minimum.at(first_use, reads, np.arange(len(stream)))
    needed = np.argsort(first_use, kind="stable")
    fill.order = needed[~fill.ready[needed]].tolist()
