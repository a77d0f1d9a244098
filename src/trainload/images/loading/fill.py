"""Samples on their way into memory: where they belong in an arena, which have arrived, which reads bring the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.errors import FormatError, SampleError
from trainload.images.loading.layout import ReadPlan, plan_reads
from trainload.images.loading.picture_sets import PictureSet, Places
from trainload.memory.aligned import aligned_array


@dataclass(frozen=True, slots=True)
class Reads:
    """Reads into a fill, in the order in which they should be done.

    Read k takes sizes[k] bytes of units[k] from starts[k] to place[k] in the arena; whole[k]: the unit's checksum can
    be checked. It brings the samples in rows[edges[k]:edges[k+1]] of the fill's layout.
    """

    units: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    place: NDArray[np.int64]
    whole: NDArray[np.bool_]
    rows: NDArray[np.int64]
    edges: NDArray[np.int64]
    order: Sequence[int]

    def rows_of(self, k: int) -> NDArray[np.int64]:
        """The samples that read `k` brings."""
        return self.rows[self.edges[k] : self.edges[k + 1]]


class Fill:
    """One arena with a place for every sample of `layout`.

    arrived[row]: that sample is there. damaged: by row, why a sample that is there is not what was packed.
    left: samples that are still to be decoded from here; at 0 the arena may be filled anew. Two runs may fill one arena
    at once: they write the same bytes to the same place.
    """

    def __init__(self, arena: NDArray[np.uint8], layout: ReadPlan, left: int = 0) -> None:
        self.arena = arena
        self.layout = layout
        self.left = left
        self.arrived = np.zeros(len(layout.ids), np.bool_)
        self.damaged: dict[int, str] = {}

    def read(self, pictures: PictureSet, reads: Reads, k: int, *, verify: bool) -> int:
        """Do read `k` and check what came against its checksums. The bytes read: 0 if all were there, or none came.

        A file of a folder that cannot be read is the damage of its sample, as a wrong checksum would be.
        Raises FormatError where a block's checksum is wrong and no picture is known to be at fault.
        """
        rows = reads.rows_of(k)
        if self.arrived[rows].all():
            return 0
        place, size = int(reads.place[k]), int(reads.sizes[k])
        view = self.arena[place : place + size].data
        try:
            pictures.read(int(reads.units[k]), int(reads.starts[k]), view)
        except SampleError as error:
            self.damaged |= dict.fromkeys(rows.tolist(), error.reason)
            self.arrived[rows] = True
            return 0
        if verify:
            self._check(pictures, reads, k, view)
        self.arrived[rows] = True
        return size

    def _check(self, pictures: PictureSet, reads: Reads, k: int, view: memoryview) -> None:
        """A whole unit by its checksum; where that is wrong, or a part came, each of the read's samples by its own."""
        failure = None
        if reads.whole[k]:
            try:
                pictures.check_unit(int(reads.units[k]), view)
                return
            except FormatError as error:
                failure = error
        damaged = self._damage(pictures, reads.rows_of(k)) if pictures.has_sums else {}
        if failure is not None and not damaged:
            raise failure
        self.damaged |= damaged

    def _damage(self, pictures: PictureSet, rows: NDArray[np.int64]) -> dict[int, str]:
        ids, data = self.layout.ids[rows], self.arena.data
        table = zip(rows.tolist(), ids.tolist(), self.layout.offsets[rows].tolist(), pictures.places.size[ids].tolist())
        damaged = {}
        for row, sample, start, size in table:
            try:
                pictures.check_sample(sample, data[start : start + size])
            except FormatError as error:
                damaged[row] = f"{error.rule} (found {error.found}, expected {error.expected})"
        return damaged

    def reasons(self, ids: NDArray[np.int64]) -> dict[int, str]:
        """By position in `ids`, the damage that checksums found."""
        rows = self.layout.find(ids).tolist() if self.damaged else ()
        return {n: self.damaged[row] for n, row in enumerate(rows) if row in self.damaged}

    def holds(self, ids: NDArray[np.int64]) -> bool:
        """True where all of these samples belong here and have arrived."""
        return self.layout.covers(ids) and bool(self.arrived[self.layout.find(ids)].all())

    def offsets(self, ids: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Where samples that belong here lie in the arena."""
        return self.layout.offsets[self.layout.find(ids)]

    def carry(self, before: Fill, ids: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        """Take samples that arrived in another arena over from there, with what is known of their damage."""
        rows, old_rows = self.layout.find(ids), before.layout.find(ids)
        places = zip(self.layout.offsets[rows].tolist(), before.layout.offsets[old_rows].tolist(), sizes.tolist())
        for to, start, size in places:
            self.arena[to : to + size] = before.arena[start : start + size]
        damaged = before.damaged
        self.damaged |= {row: damaged[old] for row, old in zip(rows.tolist(), old_rows.tolist()) if old in damaged}
        self.arrived[rows] = True

    def missing_reads(self, places: Places, stream: NDArray[np.int64]) -> Reads | None:
        """What brings the samples of `stream` that are not there yet, first needed first; None where all are."""
        missing = stream[~self.arrived[self.layout.find(stream)]]
        if not len(missing):
            return None
        everything = len(missing) == len(self.layout.ids) and not self.arrived.any()
        plan = self.layout if everything else plan_reads(places, missing)
        first_use = np.full(len(plan.units), len(missing), np.int64)
        np.minimum.at(first_use, plan.read_of[plan.find(missing)], np.arange(len(missing)))
        return _reads_into(self.layout, plan, np.argsort(first_use, kind="stable").tolist())

    def all_reads(self) -> Reads:
        """What brings all samples, in the order of their places."""
        return _reads_into(self.layout, self.layout, range(len(self.layout.units)))


def _reads_into(layout: ReadPlan, plan: ReadPlan, order: Sequence[int]) -> Reads:
    """The reads of `plan` with their places in an arena that has `layout`, which covers the plan's samples.

    Neighbours of the plan are neighbours of the layout, too: a read goes where its first sample belongs.
    """
    members = np.argsort(plan.read_of, kind="stable")
    edges = np.searchsorted(plan.read_of[members], np.arange(len(plan.units) + 1))
    rows = layout.find(plan.ids[members])
    first = members[edges[:-1]]
    before = plan.offsets[first].astype(np.int64) - plan.place
    place = layout.offsets[rows[edges[:-1]]].astype(np.int64) - before
    return Reads(plan.units, plan.starts, plan.sizes, place, plan.whole, rows, edges, order)


def resident_fill(places: Places, ids: NDArray[np.int64]) -> Fill:
    """A fill that keeps all of `ids` for good (FULLY): one arena as large as they need, nothing read yet."""
    layout = plan_reads(places, ids)
    return Fill(aligned_array(layout.size_bytes), layout)
