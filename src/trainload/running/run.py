"""The only threads of the loader: they read, decode and finish the batches of one pass over an order.

IO workers fill arenas, read k of an arena by worker k mod N: no queue. Decode workers take slices of batches in order,
across batches, so none waits for the end of a batch; where there are none, the consumer does their work when it asks.
The consumer admits a batch when it takes one, and gets them in order. A run knows its plan and its buffers, never the
loader: dropping the loader or the iterator ends it.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.loading.buffers import BatchArrays, BufferPair, Kept
from trainload.images.loading.fill import Fill, Reads
from trainload.images.loading.layout import plan_reads
from trainload.images.loading.pictures import PictureSet
from trainload.machine.threads import start_thread
from trainload.running.slices import BatchJob, Decoder, RunPlan, Slice
from trainload.running.stats import LoaderStats

NOTHING = (None, None)  # no fill, no reads


class Run:
    """The threads and the moving parts of one pass. `next_batch` is for one consumer; `stop` is for anyone."""

    def __init__(
        self,
        plan: RunPlan,
        decoder: Decoder,
        arrays: BatchArrays,
        stats: LoaderStats,
        *,
        pictures: PictureSet | None,
        memory: Fill | BufferPair | None,
        reads: Reads | None = None,
        ahead: Callable[[], object] | None = None,
        following: Callable[[], RunPlan] | None = None,
    ) -> None:
        """memory: the fill that holds all samples for good, or the pair to fill in turn, or None (nothing to read).

        reads: into the former, what brings the samples that are missing.
        ahead: work for the next epoch, done once on a thread of its own.
        following: gives the plan of the next epoch, whose first window is read into the pair while the last one of this
        epoch is consumed, and kept there.
        """
        self._plan = plan
        self._windows: list[int] = plan.windows.tolist()
        self._decoder = decoder
        self._arrays = arrays
        self._stats = stats
        self._pictures = pictures
        self._memory = memory
        self._resident_reads = reads
        self._ahead = ahead
        self._following = following
        self._next_plan: RunPlan | None = None
        self._pid = os.getpid()
        self._next = 0  # the batch to admit next
        self._pending: deque[BatchJob] = deque()
        self._slices: deque[Slice] = deque()
        self._fills: dict[int, tuple[Fill, Reads | None]] = {}  # by window
        self._windows_planned = 0
        self._first_done = False  # some batch is done
        self._failed: dict[tuple[int, int], Exception] = {}  # (window, row of its layout): what its read raised
        self._stopped = False
        self._failure: BaseException | None = None
        self._scratch = None if plan.workers else decoder.new_scratch()  # of the consumer, who decodes then
        lock = threading.RLock()  # reentrant: the garbage collector may call stop() anywhere
        self._lock = lock
        self._work = threading.Condition(lock)  # slices were added
        self._data = threading.Condition(lock)  # a read is done
        self._room = threading.Condition(lock)  # an arena is free, or its reads are planned
        self._done = threading.Condition(lock)  # a batch is done
        self._threads: list[threading.Thread] = []

    @property
    def alive(self) -> bool:
        """False once stopped, suspended, or in a forked child, which has none of the threads."""
        return not self._stopped and self._pid == os.getpid()

    def start(self) -> None:
        """Claim the buffers, start the threads, admit the first batches. Raises OSError where there is no thread."""
        self._arenas: Sequence[NDArray[np.uint8]] = ()
        if isinstance(self._memory, BufferPair):
            self._arenas, kept = self._memory.claim(self, self._plan)
            if kept is not None:
                fill, _ = self._fills[0] = kept.filled
                self._arenas = sorted(self._arenas, key=lambda arena: arena is not fill.arena)
                self._windows_planned = 1
        elif self._memory is not None:
            self._fills[0] = self._memory, self._resident_reads
            self._windows_planned = 1
        loops: list[tuple[str, Callable[[int], None], int]] = [
            ("decode", self._decode_loop, self._plan.workers),
            ("io", self._io_loop, self._plan.io_workers if self._must_read() else 0),
            ("ahead", self._ahead_once, self._ahead is not None),
        ]
        try:
            for name, loop, count in loops:
                for n in range(count):
                    thread = threading.Thread(
                        target=self._guard, args=(loop, n), name=f"trainload-{name}-{n}", daemon=True
                    )
                    start_thread(thread)
                    self._threads.append(thread)
            self._admit()
        except BaseException:
            self.stop()
            raise

    def _must_read(self) -> bool:
        return isinstance(self._memory, BufferPair) or self._resident_reads is not None

    def next_batch(self) -> BatchJob | None:
        """The next batch, or None at the end. Raises what went wrong with it, with the traceback of its thread."""
        self._admit()  # an array may have come back since
        if not self._pending:
            if self._next < len(self._plan.share.ends):
                raise UsageError("every batch array is in use: give one back before asking for another batch")
            return None
        job = self._pending[0]
        started = time.perf_counter()
        while not self._plan.workers and self._slices and not job.done:
            self._decode(self._scratch, self._slices.popleft())
        with self._lock:
            while not job.done and self._failure is None and not self._stopped:
                self._done.wait()
        self._stats.consumer_waits_seconds += time.perf_counter() - started
        if not job.done:
            raise self._failure or UsageError("the iterator was closed while a batch was asked for")
        self._pending.popleft()
        if job.error is not None:
            error, job.error = job.error, None  # its traceback knows the job: no cycle may keep the arena
            try:
                raise error
            finally:
                del error
        self._admit()
        return job

    def stop(self) -> None:
        """End the threads and wait for them; a slice that is being decoded is finished. Twice is fine."""
        if self._pid != os.getpid():  # a forked child has none of the threads, and the lock may be held for ever
            return
        with self._lock:
            self._stopped = True
            for condition in (self._work, self._data, self._room, self._done):
                condition.notify_all()
        if threading.current_thread() in self._threads:  # by the garbage collector: the pair's next tenant joins
            return
        for thread in self._threads:
            thread.join()
        read_ahead = self._fills.get(len(self._windows) - 1)
        kept = Kept(self._next_plan, read_ahead) if read_ahead is not None else None
        self._fills.clear()  # a run that is kept must not keep the arenas
        self._arenas = ()
        if isinstance(self._memory, BufferPair):
            self._memory.release(self, kept)

    def suspend(self) -> None:
        """Another loader takes the buffers: stop. The iterator sees it and starts a new run from its position."""
        self.stop()

    # The consumer's side: batches are cut into slices and admitted while there are arrays to decode them to.

    def _admit(self) -> None:
        share = self._plan.share
        while self._next < len(share.ends) and len(self._pending) < self._plan.prefetch:
            first, end = int(share.bounds[self._next]), int(share.bounds[self._next + 1])
            images = self._arrays.take(end - first)
            if images is None:
                return
            ids, draws = self._plan.stream[first:end], self._plan.draws
            job = BatchJob(
                ids=ids, labels=self._plan.labels[ids].astype(np.int64), images=images,
                codes=np.zeros(end - first, np.int32), seed=self._plan.seed, epoch=self._plan.epoch,
                end=int(share.ends[self._next]), following=self._plan.stream[end:],
                draws=None if draws is None else draws[first:end],
                following_draws=None if draws is None else draws[end:],
            )  # fmt: skip
            self._next += 1
            self._pending.append(job)
            slices = self._cut(job, first, end)
            job.slices_left = len(slices)
            if not slices:
                self._finish(job)
            with self._lock:
                self._slices.extend(slices)
                self._work.notify(len(slices))

    def _cut(self, job: BatchJob, first: int, end: int) -> list[Slice]:
        """The slices of stream positions first .. end-1: none crosses a window."""
        windows = self._windows
        window = bisect_right(windows, first) - 1
        slices = []
        at = first
        while at < end:
            stop = min(at + self._plan.slice_size, end, windows[window + 1])
            slices.append(Slice(job, at - first, stop - first, window))
            window += stop == windows[window + 1]
            at = stop
        return slices

    # The threads.

    def _guard(self, loop: Callable[[int], None], n: int) -> None:
        """Run a loop; what it lets escape ends the run and reaches the consumer."""
        try:
            loop(n)
        except BaseException as error:
            with self._lock:
                self._failure = self._failure or error
                self._done.notify_all()

    def _ahead_once(self, n: int) -> None:
        if self._ahead is not None:
            self._ahead()

    def _decode_loop(self, n: int) -> None:
        scratch = self._decoder.new_scratch()
        while (part := self._next_slice()) is not None:
            self._decode(scratch, part)
            del part  # else the last batch stays in memory while this thread waits

    def _decode(self, scratch: Any, part: Slice) -> None:
        try:
            fill = self._await_fill(part)
            started = time.perf_counter()
            if not self._stopped:
                self._decoder.decode(scratch, fill, part.job, part.first, part.end)
            self._give_back(part, time.perf_counter() - started)
        except BaseException as error:
            part.job.error = part.job.error or error
            self._give_back(part, 0.0)

    def _next_slice(self) -> Slice | None:
        started = time.perf_counter()
        with self._lock:
            while not self._slices and not self._stopped:
                self._work.wait()
            self._stats.idle_seconds += time.perf_counter() - started
            return None if self._stopped else self._slices.popleft()

    def _await_fill(self, part: Slice) -> Fill | None:
        """The fill that holds the slice's samples, once all have arrived; None where nothing is read or all is over.

        Raises what the read of one of them raised.
        """
        if self._memory is None:
            return None
        started = time.perf_counter()
        with self._lock:
            while not self._stopped:
                fill, _ = self._fills.get(part.window, NOTHING)
                if fill is not None and self._has_arrived(fill, part):
                    self._stats.data_waits_seconds += time.perf_counter() - started
                    return fill
                self._data.wait()
        return None

    def _has_arrived(self, fill: Fill, part: Slice) -> bool:
        rows = fill.layout.find(part.job.ids[part.first : part.end])
        for row in rows.tolist() if self._failed else ():
            if (part.window, row) in self._failed:
                raise self._failed[part.window, row]
        return bool(fill.arrived[rows].all())

    def _give_back(self, part: Slice, decode_seconds: float) -> None:
        with self._lock:
            self._stats.decode_seconds += decode_seconds
            fill, _ = self._fills.get(part.window, NOTHING)
            if fill is not None and self._arenas:
                fill.left -= part.end - part.first
                if fill.left == 0:
                    self._room.notify_all()
            part.job.slices_left -= 1
            last = part.job.slices_left == 0
        if last:
            self._finish(part.job)

    def _finish(self, job: BatchJob) -> None:
        if self._stopped:  # its slices were skipped
            return
        try:
            if job.error is None:
                self._decoder.finish(job)
        except BaseException as error:
            job.error = error
        with self._lock:
            job.done = True
            self._done.notify_all()
            if not self._first_done:
                self._first_done = True
                self._room.notify_all()

    def _io_loop(self, n: int) -> None:
        assert self._pictures is not None
        pictures = self._pictures.clone()
        try:
            for window in range(len(self._windows) - (self._following is None)):
                fill, reads = self._fill_of(window, planner=n == 0)
                if fill is None or reads is None:
                    continue
                for k in reads.order[n :: self._plan.io_workers]:
                    if self._stopped:
                        return
                    self._read(pictures, window, fill, reads, k)
        finally:
            if pictures is not self._pictures:
                pictures.close()

    def _read(self, pictures: PictureSet, window: int, fill: Fill, reads: Reads, k: int) -> None:
        started = time.perf_counter()
        failure, size = None, 0
        try:
            size = fill.read(pictures, reads, k, verify=self._plan.verify)
        except Exception as error:
            failure = error
        with self._lock:
            if failure is not None:
                self._failed |= {(window, row): failure for row in reads.rows_of(k).tolist()}
            self._stats.read_bytes += size
            self._stats.read_seconds += time.perf_counter() - started
            self._data.notify_all()

    def _fill_of(self, window: int, *, planner: bool) -> tuple[Fill | None, Reads | None]:
        """A window's fill and reads, planned by the first IO worker once an arena is free; nothing where it is over."""
        with self._lock:
            while not self._stopped and window >= self._windows_planned:
                if planner and self._is_free(window):
                    break
                self._room.wait()
            if self._stopped or window < self._windows_planned:
                return self._fills.get(window, NOTHING)
        ids = self._samples_of(window)
        arena = self._arenas[window % 2]
        assert self._pictures is not None
        places = self._pictures.places
        fill = Fill(arena, plan_reads(places, ids, limit_bytes=len(arena)), left=len(ids))
        reads = fill.all_reads() if self._pictures.has_blocks else fill.missing_reads(places, ids)
        with self._lock:
            self._fills.pop(window - 2, None)
            self._fills[window] = fill, reads
            self._windows_planned = window + 1
            self._room.notify_all()
        return fill, reads

    def _is_free(self, window: int) -> bool:
        """True once a window's arena may be filled. The second window waits for the first batch, unless that needs it:
        an epoch starts in half the time where its reads and the decoding do not share the processors.
        """
        before, _ = self._fills.get(window - 2, NOTHING)
        if before is not None:
            return before.left == 0
        return window == 0 or self._first_done or int(self._plan.share.bounds[1]) > self._windows[1]

    def _samples_of(self, window: int) -> NDArray[np.int64]:
        """The stream's part in a window; in the one after the last it is the next epoch's first part."""
        plan = self._plan
        if window == len(plan.windows) - 1 and self._following is not None:
            plan = self._next_plan = self._following()
            window = 0
        return plan.stream[plan.windows[window] : plan.windows[window + 1]]
