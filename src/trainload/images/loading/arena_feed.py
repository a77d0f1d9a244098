"""Arenas filled with pictures while a run decodes them: the feed of the image loader.

IO loops fill arenas, read k of an arena by loop k mod N: no queue. Where there are two arenas, one is consumed while
the other fills; the first segment of the next epoch is read while the last one of this epoch is consumed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trainload.images.loading.buffers import BufferPair, Kept
from trainload.images.loading.fill import Fill, Reads
from trainload.images.loading.lane_layout import plan_with_carried
from trainload.images.loading.layout import plan_reads
from trainload.images.loading.picture_sets import PictureSet
from trainload.running.feed import Signals, Tenant
from trainload.running.slices import RunPlan, Slice
from trainload.running.stats import LoaderStats

NOTHING = (None, None)  # no fill, no reads


class ArenaFeed:
    """The pictures of one run. memory: the fill that holds all samples for good, or the pair to fill in turn.

    reads: into the former, what brings the samples that are missing. following: gives the plan of the next epoch, whose
    first segment is read into the pair, and kept there.
    """

    def __init__(
        self,
        plan: RunPlan,
        pictures: PictureSet,
        memory: Fill | BufferPair,
        stats: LoaderStats,
        *,
        reads: Reads | None = None,
        following: Callable[[], RunPlan] | None = None,
    ) -> None:
        self._plan = plan
        self._segments: list[int] = plan.segments.tolist()
        self._pictures = pictures
        self._memory = memory
        self._stats = stats
        self._resident_reads = reads
        self._following = following
        self._next_plan: RunPlan | None = None
        self._arenas: Sequence[NDArray[np.uint8]] = ()
        self._fills: dict[int, tuple[Fill, Reads | None]] = {}  # by segment
        self._segments_planned = 0
        self._first_done = False  # some batch is done
        self._failed: dict[tuple[int, int], Exception] = {}  # (segment, row of its layout): what its read raised

    @property
    def loops(self) -> int:
        """Threads that read; none where everything is in memory."""
        must_read = isinstance(self._memory, BufferPair) or self._resident_reads is not None
        return self._plan.io_workers if must_read else 0

    def open(self, run: Tenant, signals: Signals) -> None:
        """Claim the arenas."""
        self._signals = signals
        self._lock = lock = signals.lock
        self._data = threading.Condition(lock)  # a read is done
        self._room = threading.Condition(lock)  # an arena is free, or its reads are planned
        if isinstance(self._memory, BufferPair):
            self._arenas, kept = self._memory.claim(run, self._plan)
            if kept is not None:
                fill, _ = self._fills[0] = kept.filled
                self._arenas = sorted(self._arenas, key=lambda arena: arena is not fill.arena)
                self._segments_planned = 1
        else:
            self._fills[0] = self._memory, self._resident_reads
            self._segments_planned = 1

    def wait_for(self, part: Slice) -> Fill | None:
        """The fill that holds the slice's samples, once all have arrived; None where all is over.

        Raises what the read of one of them raised.
        """
        started = time.perf_counter()
        with self._lock:
            while not self._signals.stopped:
                fill, _ = self._fills.get(part.segment, NOTHING)
                if fill is not None and self._has_arrived(fill, part):
                    self._stats.data_waits_seconds += time.perf_counter() - started
                    return fill
                self._data.wait()
        return None

    def consumed(self, part: Slice) -> None:
        """The samples of a slice may go."""
        fill, _ = self._fills.get(part.segment, NOTHING)
        if fill is not None and self._arenas:
            fill.left -= part.end - part.first
            if fill.left == 0:
                self._room.notify_all()

    def batch_done(self) -> None:
        """With the first batch the second segment may be filled."""
        if not self._first_done:
            self._first_done = True
            self._room.notify_all()

    def wake(self) -> None:
        """The run has stopped."""
        self._data.notify_all()
        self._room.notify_all()

    def close(self, run: Tenant) -> None:
        """Give the arenas back; what was read ahead for the next epoch is kept there."""
        read_ahead = self._fills.get(len(self._segments) - 1)
        kept = Kept(self._next_plan, read_ahead) if read_ahead is not None else None
        self._fills.clear()  # a run that is kept must not keep the arenas
        self._arenas = ()
        if isinstance(self._memory, BufferPair):
            self._memory.release(run, kept)

    def _has_arrived(self, fill: Fill, part: Slice) -> bool:
        rows = fill.layout.find(part.job.ids[part.first : part.end])
        for row in rows.tolist() if self._failed else ():
            if (part.segment, row) in self._failed:
                raise self._failed[part.segment, row]
        return bool(fill.arrived[rows].all())

    def loop(self, n: int) -> None:
        """Read what is the n-th loop's part of every segment."""
        pictures = self._pictures.clone()
        try:
            for segment in range(len(self._segments) - (self._following is None)):
                fill, reads = self._fill_of(segment, planner=n == 0)
                if fill is None or reads is None:
                    continue
                if n == 0:
                    self._carry(segment, fill)
                for k in reads.order[n :: self._plan.io_workers]:
                    if self._signals.stopped:
                        return
                    self._read(pictures, segment, fill, reads, k)
        finally:
            if pictures is not self._pictures:
                pictures.close()

    def _read(self, pictures: PictureSet, segment: int, fill: Fill, reads: Reads, k: int) -> None:
        started = time.perf_counter()
        failure, size = None, 0
        try:
            size = fill.read(pictures, reads, k, verify=self._plan.verify)
        except Exception as error:
            failure = error
        traffic = pictures.take_traffic()
        with self._lock:
            if traffic is not None:
                self._stats.count_traffic(traffic)
            if failure is not None:
                self._failed |= {(segment, row): failure for row in reads.rows_of(k).tolist()}
            self._stats.read_bytes += size
            self._stats.read_seconds += time.perf_counter() - started
            self._data.notify_all()

    def _fill_of(self, segment: int, *, planner: bool) -> tuple[Fill | None, Reads | None]:
        """A segment's fill and reads, planned by the first IO loop once an arena is free; nothing at the end."""
        with self._lock:
            while not self._signals.stopped and segment >= self._segments_planned:
                if planner and self._is_free(segment):
                    break
                self._room.wait()
            if self._signals.stopped or segment < self._segments_planned:
                return self._fills.get(segment, NOTHING)
        plan, part = self._part_of(segment)
        arena = self._arenas[segment % 2]
        places = self._pictures.places
        first, end = int(plan.segments[part]), int(plan.segments[part + 1])
        ids = plan.stream[first:end]
        if plan.brought is None:
            layout = plan_reads(places, ids, limit_bytes=len(arena))
        else:
            ids = plan.stream[first:][plan.brought[first:] == part]
            layout = plan_with_carried(places, ids, self._carried(plan, part), len(arena))
        fill = Fill(arena, layout, left=end - first)
        reads = fill.all_reads() if self._pictures.has_blocks else fill.missing_reads(places, ids)
        with self._lock:
            self._fills.pop(segment - 2, None)
            self._fills[segment] = fill, reads
            self._segments_planned = segment + 1
            self._room.notify_all()
        return fill, reads

    def _is_free(self, segment: int) -> bool:
        """True once a segment's arena may be filled. The second one waits for the first batch, unless that needs it:
        an epoch starts in half the time where its reads and the decoding do not share the processors.
        """
        before, _ = self._fills.get(segment - 2, NOTHING)
        if before is not None:
            return before.left == 0
        return segment == 0 or self._first_done or int(self._plan.share.bounds[1]) > self._segments[1]

    def _part_of(self, segment: int) -> tuple[RunPlan, int]:
        """The plan that a segment belongs to and its number there: the one after the last begins the next epoch."""
        if segment == len(self._segments) - 1 and self._following is not None:
            self._next_plan = self._following()
            return self._next_plan, 0
        return self._plan, segment

    def _carried(self, plan: RunPlan, part: int) -> NDArray[np.int64]:
        """What earlier segments brought of the samples from this one on: ids, ascending."""
        if plan.brought is None:
            return np.empty(0, np.int64)
        first = int(plan.segments[part])
        return np.unique(plan.stream[first:][plan.brought[first:] < part])

    def _carry(self, segment: int, fill: Fill) -> None:
        """Copy what the arena before has for this segment and later ones, once it has arrived there.

        This loop alone plans segments, so that arena is not filled anew meanwhile.
        """
        before, _ = self._fills.get(segment - 1, NOTHING)
        if before is None or segment >= len(self._segments) - 1:
            return
        ids = self._carried(self._plan, segment)
        if not len(ids):
            return
        rows, old_rows = fill.layout.find(ids), before.layout.find(ids)
        with self._lock:
            while not self._signals.stopped:
                failed = np.array([(segment - 1, row) in self._failed for row in old_rows.tolist()])
                if (before.arrived[old_rows] | failed).all():
                    break
                self._data.wait()
            else:
                return
            for row, old in zip(rows[failed].tolist(), old_rows[failed].tolist()):
                self._failed[segment, row] = self._failed[segment - 1, old]
        ids = ids[~failed]
        fill.carry(before, ids, self._pictures.places.size[ids])
        with self._lock:
            self._data.notify_all()
