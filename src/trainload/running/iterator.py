"""One pass over an epoch, from a position on: what `iter(loader)` gives."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from trainload.running.cursor import Cursor, Pass, Start
from trainload.running.run import Run
from trainload.running.slices import BatchJob
from trainload.running.stats import LoaderStats


class BatchIterator:
    """Batches in order. Ends its threads when it is exhausted, closed, dropped, or when it raises.

    Its threads start at once, at the epoch that is next. It takes that epoch with its first batch: what the loader was
    told until then counts, and an iterator that hands out nothing uses up nothing. Where its threads are gone for
    another reason (another loader took the shared buffers, the process forked) it goes on from its position.
    """

    def __init__(
        self,
        find_start: Callable[[], Start],
        start_run: Callable[[Start, int], Run],
        cursor: Cursor,
        stats: LoaderStats,
        check: Callable[[BatchJob], None] | None = None,
    ) -> None:
        """find_start(): where a pass begins now. start_run(start, position): the threads of one, from there on.

        check: what a batch must pass before it is handed out; it may count and raise.
        """
        self._find_start = find_start
        self._start_run = start_run
        self._cursor = cursor
        self._stats = stats
        self._pass: Pass | None = None  # until the first batch is handed out
        self._check = check
        self._ended = False
        self._mark = time.perf_counter()
        self._begin_at(find_start())

    def _begin_at(self, start: Start) -> None:
        self._start = start
        self.position = start.position
        self._begin()

    def _begin(self) -> None:
        run = self._start_run(self._start, self.position)
        self._run = run
        self._finalizer = weakref.finalize(self, run.stop)

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Any:
        return self.next_job().output

    def next_job(self) -> BatchJob:
        """The next batch with its ids and the position after it; StopIteration at the end."""
        return self.next_step(1)[0]

    def next_step(self, count: int) -> list[BatchJob]:
        """The next `count` batches as one: all of them are handed out, or none. StopIteration at the end."""
        if self._ended:
            raise StopIteration
        self._make_ready()
        jobs: list[BatchJob] = []
        try:
            while len(jobs) < count and (job := self._run.next_batch()) is not None:
                if self._check is not None:
                    self._check(job)
                jobs.append(job)
        except BaseException:
            self.close()
            raise
        if self._pass is None:
            self._pass = self._cursor.begin(self._start)
        if not jobs:
            self.close()
            self._pass.finished()
            raise StopIteration
        self.position = jobs[-1].end
        self._count(jobs)
        self._pass.delivered(self.position)
        return jobs

    def _make_ready(self) -> None:
        """See to it that threads are at work, and before the first batch that it is the work to do now."""
        start = self._start if self._pass is not None else self._find_start()
        if start != self._start:
            self._finalizer()
            self._begin_at(start)
        elif not self._run.alive:
            self._finalizer.detach()
            self._begin()

    def _count(self, jobs: list[BatchJob]) -> None:
        now = time.perf_counter()
        self._stats.elapsed_seconds += now - self._mark
        self._mark = now
        self._stats.batches += len(jobs)
        self._stats.samples += sum(len(job.ids) for job in jobs)

    def close(self) -> None:
        """End the threads; twice is fine."""
        self._ended = True
        self._finalizer()
