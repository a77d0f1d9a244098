"""One pass over an epoch, from a position on: what `iter(loader)` gives."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

from trainload.loading.jobs import BatchJob
from trainload.loading.stats import LoaderStats
from trainload.loading.workers import Run


class BatchIterator:
    """Batches in order. Ends its threads when it is exhausted, closed, dropped, or when it raises.

    Where its threads are gone for another reason (another loader took the shared buffers, the process forked) it goes
    on from its position with new ones.
    """

    def __init__(
        self,
        start_run: Callable[[int], Run],
        position: int,
        stats: LoaderStats,
        delivered: Callable[[int], None],
        finished: Callable[[], None],
    ) -> None:
        """start_run(position) starts the threads; delivered(position) and finished() tell the loader where this is."""
        self._start_run = start_run
        self._stats = stats
        self._delivered = delivered
        self._finished = finished
        self.position = position
        self._ended = False
        self._mark = time.perf_counter()
        self._begin()

    def _begin(self) -> None:
        run = self._start_run(self.position)
        self._run = run
        self._finalizer = weakref.finalize(self, run.stop)

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> tuple[Any, ...]:
        return self.next_job().output

    def next_job(self) -> BatchJob:
        """The next batch with its ids and the position after it; StopIteration at the end."""
        if self._ended:
            raise StopIteration
        if not self._run.alive:
            self._finalizer.detach()
            self._begin()
        try:
            job = self._run.next_batch()
        except BaseException:
            self.close()
            raise
        if job is None:
            self.close()
            self._finished()
            raise StopIteration
        self.position = job.end
        self._count(job)
        self._delivered(job.end)
        return job

    def _count(self, job: BatchJob) -> None:
        now = time.perf_counter()
        self._stats.elapsed_seconds += now - self._mark
        self._mark = now
        self._stats.batches += 1
        self._stats.pictures += len(job.ids)

    def close(self) -> None:
        """End the threads; twice is fine."""
        self._ended = True
        self._finalizer()
