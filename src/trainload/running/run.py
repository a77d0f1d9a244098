"""The only threads of a loader: they read, decode and finish the batches of one pass over an order.

The loops of a feed (running/feed.py) read. Decode workers take slices of batches in order, across batches, so none
waits for the end of a batch; where there are none, the consumer does their work when it asks. The consumer admits a
batch when it takes one, and gets them in order. A run knows its plan, its decoder and its feed, never the loader:
dropping the loader or the iterator ends it.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Any

from trainload.errors import UsageError
from trainload.machine.numa import bind_thread
from trainload.machine.threads import start_thread
from trainload.running.feed import Feed, Signals
from trainload.running.slices import BatchArrays, BatchJob, Decoder, RunPlan, Slice
from trainload.running.stats import LoaderStats


class Run:
    """The threads and the moving parts of one pass. `next_batch` is for one consumer; `stop` is for anyone."""

    def __init__(
        self,
        plan: RunPlan,
        decoder: Decoder,
        arrays: BatchArrays,
        stats: LoaderStats,
        *,
        feed: Feed | None = None,
        ahead: Callable[[], object] | None = None,
    ) -> None:
        """feed: brings the samples into memory; None where there is nothing to read.

        ahead: work for the next epoch, done once on a thread of its own.
        """
        self._plan = plan
        self._segments: list[int] = plan.segments.tolist()
        self._decoder = decoder
        self._arrays = arrays
        self._stats = stats
        self.feed = feed
        self._ahead = ahead
        self._pid = os.getpid()
        self._next = 0  # the batch to admit next
        self._pending: deque[BatchJob] = deque()
        self._slices: deque[Slice] = deque()
        self._failure: BaseException | None = None
        self._scratch = None if plan.workers else decoder.new_scratch()  # of the consumer, who decodes then
        self._signals = Signals()
        self._lock = lock = self._signals.lock
        self._work = threading.Condition(lock)  # slices were added
        self._done = threading.Condition(lock)  # a batch is done
        self._threads: list[threading.Thread] = []

    @property
    def alive(self) -> bool:
        """False once stopped, suspended, or in a forked child, which has none of the threads."""
        return not self._signals.stopped and self._pid == os.getpid()

    def start(self) -> None:
        """Claim the buffers, start the threads, admit the first batches. Raises OSError where there is no thread."""
        if self.feed is not None:
            self.feed.open(self, self._signals)
        loops: list[tuple[str, Callable[[int], None], int]] = [
            ("decode", self._decode_loop, self._plan.workers),
            ("io", self._io_loop, 0 if self.feed is None else self.feed.loops),
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
            while not job.done and self._failure is None and not self._signals.stopped:
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
            self._signals.stopped = True
            self._work.notify_all()
            self._done.notify_all()
            if self.feed is not None:
                self.feed.wake()
        if threading.current_thread() in self._threads:  # by the garbage collector: the pair's next tenant joins
            return
        for thread in self._threads:
            thread.join()
        if self.feed is not None:
            self.feed.close(self)

    def suspend(self) -> None:
        """Another loader takes the buffers: stop. The iterator sees it and starts a new run from its position."""
        self.stop()

    # The consumer's side: batches are cut into slices and admitted while there are arrays to decode them to.

    def _admit(self) -> None:
        share = self._plan.share
        while self._next < len(share.ends) and len(self._pending) < self._plan.prefetch:
            first, end = int(share.bounds[self._next]), int(share.bounds[self._next + 1])
            ids, draws = self._plan.stream[first:end], self._plan.draws
            items = self._arrays.take(ids)
            if items is None:
                return
            job = BatchJob(
                ids=ids,
                items=items,
                seed=self._plan.seed,
                epoch=self._plan.epoch,
                end=int(share.ends[self._next]),
                following=self._plan.stream[end:],
                draws=None if draws is None else draws[first:end],
                following_draws=None if draws is None else draws[end:],
            )
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
        """The slices of stream positions first .. end-1: none crosses from one segment into the next."""
        segments = self._segments
        segment = bisect_right(segments, first) - 1
        slices = []
        at = first
        while at < end:
            stop = min(at + self._plan.slice_size, end, segments[segment + 1])
            slices.append(Slice(job, at - first, stop - first, segment))
            segment += stop == segments[segment + 1]
            at = stop
        return slices

    # The threads.

    def _guard(self, loop: Callable[[int], None], n: int) -> None:
        """Run a loop on its CPUs; what it lets escape ends the run and reaches the consumer."""
        try:
            bind_thread(self._plan.cpus, n)
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
            data = None if self.feed is None else self.feed.wait_for(part)
            started = time.perf_counter()
            if not self._signals.stopped:
                self._decoder.decode(scratch, data, part.job, part.first, part.end)
            self._give_back(part, time.perf_counter() - started)
        except BaseException as error:
            part.job.error = part.job.error or error
            self._give_back(part, 0.0)

    def _next_slice(self) -> Slice | None:
        started = time.perf_counter()
        with self._lock:
            while not self._slices and not self._signals.stopped:
                self._work.wait()
            self._stats.idle_seconds += time.perf_counter() - started
            return None if self._signals.stopped else self._slices.popleft()

    def _give_back(self, part: Slice, decode_seconds: float) -> None:
        with self._lock:
            self._stats.decode_seconds += decode_seconds
            if self.feed is not None:
                self.feed.consumed(part)
            part.job.slices_left -= 1
            last = part.job.slices_left == 0
        if last:
            self._finish(part.job)

    def _finish(self, job: BatchJob) -> None:
        if self._signals.stopped:  # its slices were skipped
            return
        try:
            if job.error is None:
                self._decoder.finish(job)
        except BaseException as error:
            job.error = error
        with self._lock:
            job.done = True
            self._done.notify_all()
            if self.feed is not None:
                self.feed.batch_done()

    def _io_loop(self, n: int) -> None:
        if self.feed is not None:
            self.feed.loop(n)
