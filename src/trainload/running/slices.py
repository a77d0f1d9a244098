"""What a run is made of: its plan, the batches on their way, the slices that threads take. No threads here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainload.errors import SampleError
from trainload.running.order import RankBatches


@dataclass(slots=True)
class BatchJob:
    """One batch on its way: ids and labels int64 [n], images [n, ...], codes int32 [n] (0: decoded well).

    seed, epoch: of its augmentation. end: position of the global order after it. following: this rank's samples after
    it. draws, following_draws: uint32, how often the epoch has had each of them before; None is never. reasons: why the
    sample at a place was not decoded. damage: what was wrong with each that was replaced. output: what the consumer
    gets, once `done`; unless `error`.
    """

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    images: NDArray[Any]
    codes: NDArray[np.int32]
    seed: int
    epoch: int
    end: int
    following: NDArray[np.int64]
    draws: NDArray[np.uint32] | None = None
    following_draws: NDArray[np.uint32] | None = None
    reasons: dict[int, str] = field(default_factory=dict)
    damage: list[SampleError] = field(default_factory=list)
    slices_left: int = 0
    done: bool = False
    output: tuple[Any, ...] = ()
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Samples first .. end-1 of a batch, which lie in buffer window `window`: what a decode worker takes at a time."""

    job: BatchJob
    first: int
    end: int
    window: int


class BatchArrays(Protocol):
    """Where batches are decoded to."""

    def take(self, count: int) -> NDArray[np.generic] | None:
        """An array for `count` pictures that nobody uses, or None where there is none at the moment."""


class Decoder(Protocol):
    """What turns samples into pictures; one object for all threads."""

    def new_scratch(self) -> Any:
        """What one thread needs for itself."""

    def decode(self, scratch: Any, data: Any, job: BatchJob, first: int, end: int) -> None:
        """Write job.images and job.codes [first:end]; `data` is what the feed gave (None: the set is in memory)."""

    def finish(self, job: BatchJob) -> None:
        """All of the batch is decoded: replace damaged pictures, apply batch operations, set job.output."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is to do. Pure values, fixed before any thread starts.

    stream: int64 [n], the ids of this rank in order; share: their batches. draws: uint32 [n], how often the epoch has
    had each before, on any rank; None is never. windows: int64 bounds of the parts of the stream that are in one arena
    at a time. slice_size: samples that a decode worker takes at a time. With 0 workers the consumer decodes.
    """

    seed: int
    epoch: int
    stream: NDArray[np.int64]
    share: RankBatches
    windows: NDArray[np.int64]
    labels: NDArray[np.int32]
    workers: int
    io_workers: int
    prefetch: int
    slice_size: int
    verify: bool
    draws: NDArray[np.uint32] | None = None
