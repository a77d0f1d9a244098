"""What a run is made of: its plan, the batches on their way, the slices that threads take. No threads here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainload.machine.numa import CpuSets
from trainload.running.order import RankBatches


@dataclass(slots=True)
class BatchJob:
    """One batch on its way: ids int64 [n], items: what the product makes it in.

    seed, epoch: of its random numbers. end: position of the global order after it. following: this rank's samples after
    it. draws, following_draws: uint32, how often the epoch has had each of them before; None is never. output: what the
    consumer gets, once `done`; unless `error`.
    """

    ids: NDArray[np.int64]
    items: Any
    seed: int
    epoch: int
    end: int
    following: NDArray[np.int64]
    draws: NDArray[np.uint32] | None = None
    following_draws: NDArray[np.uint32] | None = None
    slices_left: int = 0
    done: bool = False
    output: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Samples first .. end-1 of a batch, all of one segment of the stream: what a decode worker takes at a time."""

    job: BatchJob
    first: int
    end: int
    segment: int


class BatchArrays(Protocol):
    """Where batches are made."""

    def take(self, ids: NDArray[np.int64]) -> Any | None:
        """The items of a batch of these samples, for BatchJob; None where there is no room for them at the moment."""


class Decoder(Protocol):
    """What makes items of samples; one object for all threads."""

    def new_scratch(self) -> Any:
        """What one thread needs for itself."""

    def decode(self, scratch: Any, data: Any, job: BatchJob, first: int, end: int) -> None:
        """Make job.items [first:end]; `data` is what the feed gave (None: there is no feed)."""

    def finish(self, job: BatchJob) -> None:
        """All items of the batch are made: set job.output."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is to do. Pure values, fixed before any thread starts.

    stream: int64 [n], the ids of this rank in order; share: their batches. draws: uint32 [n], how often the epoch has
    had each before, on any rank; None is never. segments: int64 bounds of the parts of the stream that are in memory
    at a time. slice_size: samples that a decode worker takes at a time. With 0 workers the consumer decodes. cpus: what
    threads that decode or read are bound to (machine/numa.py), () where they may run anywhere. brought: int64 [n], the
    segment that must bring each position into memory, its own or an earlier one; None is always its own.
    """

    seed: int
    epoch: int
    stream: NDArray[np.int64]
    share: RankBatches
    segments: NDArray[np.int64]
    workers: int
    io_workers: int
    prefetch: int
    slice_size: int
    verify: bool
    draws: NDArray[np.uint32] | None = None
    cpus: CpuSets = ()
    brought: NDArray[np.int64] | None = None
