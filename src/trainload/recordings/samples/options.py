"""The keywords of HyperframeLoader as a type, for the adapters that pass them on."""

from __future__ import annotations

from typing import TypedDict

from trainload.machine.numa import AskedCpus
from trainload.recordings.samples.collate import Vary
from trainload.running.arguments import FOREIGN
from trainload.running.order import AskedShuffle, Last


class _Required(TypedDict):
    batch_size: int


class HyperframeOptions(_Required, total=False):
    """All keywords of HyperframeLoader but `batch_op`."""

    shuffle: AskedShuffle
    seed: int
    group_chunks: int
    workers: int | None
    prefetch: int
    last: Last
    rank: int | None
    world_size: int | None
    vary: Vary
    cpus: AskedCpus


HINTS = FOREIGN | {
    "transform": "batch_op= is any callable on a whole ClipBatch, run by the workers",
    "collate_fn": "batch_op= gets the collated batch; vary= says what becomes of frames of several shapes",
    "prefetch_factor": "prefetch=N is the number of batches in the making",
}
