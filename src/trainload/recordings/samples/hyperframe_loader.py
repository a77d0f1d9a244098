"""Batches of clips in an exact order, read by threads: groups of neighbouring windows by long reads, shuffled inside.

Order, ranks, resume and threads are those of the image loader (docs/order.md); a "block" is a chunk of windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.machine.numa import AskedCpus, cpu_sets
from trainload.memory.plan import MemoryPlan
from trainload.memory.pool import MemoryPool
from trainload.recordings.samples.chunks import ChunkKey
from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.clip_dataset import ClipDataset
from trainload.recordings.samples.collate import VARY, ClipBatch, Vary, collate
from trainload.recordings.samples.options import HINTS
from trainload.recordings.samples.store import FrameStore
from trainload.running.arguments import check_choice, check_count, own_options, refuses_foreign, shuffle_kind
from trainload.running.cursor import Start
from trainload.running.loader import EpochLoader
from trainload.running.order import AskedShuffle, Last, cut_order
from trainload.running.run import Run
from trainload.running.selection import Selection
from trainload.running.slices import BatchArrays, BatchJob, RunPlan
from trainload.running.state import fingerprint


class HyperframeLoader(EpochLoader):
    """`for batch in loader` is one epoch of ClipBatches, the next `for` the next.

    dataset: of windows, sequences or aligned frames. shuffle: "group" (chunks of neighbouring windows, 8 MB each, are
    permuted, samples shuffled inside `group_chunks` of them; small windows are read with their chunk, once but for
    clips that reach into the next one, large ones by reads of their own), "full" (over all, single reads), "none";
    "auto" and True are "group", False is "none".
    seed: of the order. workers: threads that read and decode; left out: usable cores. prefetch: batches in the making.
    last, rank, world_size: as ImageLoader. vary: as `collate`; memory of a batch is used again once nobody holds any
    part of it. batch_op: any callable, per ClipBatch, on the worker. cpus: as tl.Tuning.
    Raises what a frame raises (FormatError, SampleError), at its batch.
    """

    @refuses_foreign(HINTS)
    def __init__(
        self,
        dataset: ClipDataset,
        *,
        batch_size: int,
        shuffle: AskedShuffle = "group",
        seed: int = 0,
        group_chunks: int = 4,
        workers: int | None = None,
        prefetch: int = 3,
        last: Last = "short",
        rank: int | None = None,
        world_size: int | None = None,
        vary: Vary = "pad",
        batch_op: Callable[[ClipBatch], Any] | None = None,
        cpus: AskedCpus = None,
    ) -> None:
        options = own_options(locals(), "dataset")
        check_count("group_chunks", group_chunks)
        check_count("prefetch", prefetch)
        check_choice("vary", vary, VARY)
        self._first_chunks = _first_chunks(dataset)
        chunks = np.concatenate([chunks + first for chunks, first in zip(dataset.chunks(), self._first_chunks)])
        super().__init__(
            dataset,
            Selection(np.arange(len(dataset)), None, chunks),
            options,
            batch_size=batch_size,
            last=last,
            rank=rank,
            world_size=world_size,
            workers=workers,
        )
        self._set_order(seed, shuffle_kind(shuffle, auto="group", mixed="group"), group_chunks)
        self._prefetch = prefetch
        self._cpus = cpu_sets(cpus)
        held = group_chunks + self.workers
        self._store = dataset.store.with_chunks(0 if self.shuffle == "full" else held, held)
        self._vary: Vary = vary
        self._batch_op = batch_op
        self._decoder = self._new_decoder()

    @property
    def cache_hit_rate(self) -> float:
        """The share of frames that the dataset's cache answered, 0 to 1."""
        return self._store.cache.hit_rate

    def memory_plan(self) -> MemoryPlan:
        """The buffers, in bytes. The batches in the making come on top: prefetch + 1 of what their clips hold."""
        store, tables = self._store, 8 * 4 * len(self.dataset)
        return MemoryPlan(
            {
                f"chunks ({store.chunks.held} held, {store.chunks.in_use} in use)": store.chunks.size_bytes,
                "cache of frames": store.cache.limit_bytes,
                "orders and tables": tables,
            }
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.dataset)} samples, batch_size={self.batch_size}, "
            f"shuffle={self.shuffle!r}, rank={self._cut.ranks})"
        )

    def _samples_fingerprint(self) -> str:
        spans = [reader.windows.starts for reader in self.dataset.store.recordings]
        return fingerprint(self._selection.blocks, self.dataset.recording_of, *spans)

    def _batch_arrays(self) -> BatchArrays:
        return _ClipLists()

    def _new_decoder(self) -> _ClipDecoder:
        return _ClipDecoder(self.dataset, self._store, self._vary, self._batch_op, self._prefetch + 2)

    def _free(self) -> None:
        self._store = self.dataset.store.with_chunks(0, 0)
        self._decoder = self._new_decoder()

    def _start_run(self, start: Start, position: int, arrays: BatchArrays) -> Run:
        rule, epoch = start.rule, start.epoch
        share = cut_order(start.cut, len(self._selection), position)
        stream = self._selection.order(rule, epoch)[share.positions]
        self._store.chunks.expect(self._chunk_keys(stream), rule.group_blocks)
        plan = RunPlan(
            seed=rule.seed,
            epoch=epoch,
            stream=stream,
            share=share,
            segments=np.array([0, len(stream)], np.int64),
            workers=self.workers,
            io_workers=1,
            prefetch=self._prefetch,
            cpus=self._cpus,
            slice_size=1,
            verify=False,
        )
        run = Run(plan, self._decoder, arrays, self.stats)
        run.start()
        return run

    def _chunk_keys(self, stream: NDArray[np.int64]) -> list[ChunkKey]:
        """The chunks of these samples, each where it is first needed."""
        numbers = self._selection.blocks[stream]
        ordered = numbers[np.sort(np.unique(numbers, return_index=True)[1])]
        recordings = np.searchsorted(self._first_chunks, ordered, side="right") - 1
        return list(zip(recordings.tolist(), (ordered - self._first_chunks[recordings]).tolist()))


class _ClipLists:
    """Where clips lie between reading and collating: a list for every batch (running/slices.py: BatchArrays)."""

    def take(self, ids: NDArray[np.int64]) -> list[Clip | None]:
        return [None] * len(ids)


class _ClipDecoder:
    """Reads and decodes clips on the loader's threads (running/slices.py: Decoder)."""

    def __init__(
        self,
        dataset: ClipDataset,
        store: FrameStore,
        vary: Vary,
        batch_op: Callable[[ClipBatch], Any] | None,
        batches: int,
    ) -> None:
        """batches: how many there are at once, in the making and in use: so much memory is kept for later ones."""
        self._dataset = dataset
        self._store = store
        self._vary = vary
        self._batch_op = batch_op
        self._batches = batches
        self._memory = MemoryPool(0)

    def new_scratch(self) -> None:
        return None

    def decode(self, scratch: Any, data: Any, job: BatchJob, first: int, end: int) -> None:
        for n in range(first, end):
            job.items[n] = self._dataset.read(int(job.ids[n]), self._store)

    def finish(self, job: BatchJob) -> None:
        batch = collate(job.items, vary=self._vary, squeeze=self._dataset.squeeze, memory=self._memory)
        job.items = ()  # what is copied may be read into again, while the batch waits for its turn
        self._memory.allow(self._batches * batch.stacked_bytes)
        job.output = batch if self._batch_op is None else self._batch_op(batch)


def _first_chunks(dataset: ClipDataset) -> NDArray[np.int64]:
    """The number of each recording's first chunk, where chunks are counted over all recordings: int64 [recordings]."""
    counts = [len(dataset.store.chunks.bounds(n)) - 1 for n in range(len(dataset.store.recordings))]
    return np.cumsum([0, *counts[:-1]])
