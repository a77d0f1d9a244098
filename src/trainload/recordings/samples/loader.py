"""Batches of clips in an exact order, read by threads: groups of neighbouring windows by long reads, shuffled inside.

Order, ranks, resume and threads are those of the image loader (docs/order.md); a "block" is a chunk of windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.machine.cpus import usable_cpus
from trainload.memory.plan import MemoryPlan
from trainload.memory.pool import MemoryPool
from trainload.recordings.samples.chunks import ChunkKey
from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.collate import ClipBatch, collate
from trainload.recordings.samples.store import FrameStore
from trainload.running.iterator import BatchIterator
from trainload.running.order import LASTS, SHUFFLES, Last, OrderRule, Shuffle, cut_order, epoch_order
from trainload.running.progress import Progress, Start
from trainload.running.ranks import RankCut, Ranks
from trainload.running.run import Run
from trainload.running.slices import BatchJob, RunPlan
from trainload.running.state import LoaderState, fingerprint
from trainload.running.stats import LoaderStats


class ClipDataset(Protocol):
    """What the loader asks of a dataset: WindowDataset, SequenceDataset, AlignedDataset."""

    store: FrameStore
    squeeze: bool
    recording_of: NDArray[np.int32]

    def __len__(self) -> int: ...
    def read(self, i: int, store: FrameStore) -> Clip: ...
    def chunks(self) -> list[NDArray[np.int64]]: ...


class HyperframeLoader:
    """`for batch in loader` is one epoch of ClipBatches, the next `for` the next.

    dataset: of windows, sequences or aligned frames. shuffle: "group" (chunks of neighbouring windows, 8 MB each, are
    permuted, samples shuffled inside `group_chunks` of them; small windows are read with their chunk, once but for
    clips that reach into the next one, large ones by reads of their own), "full" (over all, single reads), "none".
    seed: of the order. workers: threads that read and decode; left out: usable cores. prefetch: batches in the making.
    last, rank, world_size: as ImageLoader. vary: as `collate`; memory of a batch is used again once nobody holds any
    part of it. batch_op: any callable, per ClipBatch, on the worker. Raises what a frame raises (FormatError,
    SampleError), at its batch.
    """

    def __init__(
        self,
        dataset: ClipDataset,
        *,
        batch_size: int,
        shuffle: str = "group",
        seed: int = 0,
        group_chunks: int = 4,
        workers: int | None = None,
        prefetch: int = 3,
        last: str = "short",
        rank: int | None = None,
        world_size: int | None = None,
        vary: str = "pad",
        batch_op: Callable[[ClipBatch], Any] | None = None,
    ) -> None:
        self._options = {name: value for name, value in locals().items() if name not in ("self", "dataset")}
        for name, value, allowed in (("shuffle", shuffle, SHUFFLES[:3]), ("last", last, LASTS)):
            if value not in allowed:
                raise UsageError(f"{name} is {value!r}; give one of {', '.join(allowed)}")
        self.workers = usable_cpus() if workers is None else workers
        for name, count in (
            ("batch_size", batch_size),
            ("group_chunks", group_chunks),
            ("prefetch", prefetch),
            ("workers", self.workers),
        ):
            if count < 1:
                raise UsageError(f"{name} is {count}; give a number above 0")
        if not 0 <= seed < 2**64:
            raise UsageError(f"seed {seed} is not in 0 .. 2^64 - 1")
        self.dataset, self.batch_size, self.last = dataset, batch_size, last
        self.stats = LoaderStats()
        self._prefetch = prefetch
        self._rule = OrderRule(seed, cast(Shuffle, shuffle), group_chunks)
        self._cut = RankCut(Ranks(rank, world_size), batch_size, cast(Last, last), len(dataset))
        self._first_chunks = _first_chunks(dataset)
        self._chunks = np.concatenate([chunks + first for chunks, first in zip(dataset.chunks(), self._first_chunks)])
        chunks = group_chunks + self.workers
        self._store = dataset.store.with_chunks(0 if shuffle == "full" else chunks, chunks)
        self._decoder = _ClipDecoder(dataset, self._store, vary, batch_op, prefetch + 2)
        self._progress = Progress()

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return self._cut.num_batches()

    @property
    def rank(self) -> int:
        """Which process this is, of `world_size`. UsageError where that is not known yet."""
        return self._cut.ranks.find()[0]

    @property
    def world_size(self) -> int:
        """How many processes share an epoch. UsageError where that is not known yet."""
        return self._cut.ranks.find()[1]

    @property
    def cache_hit_rate(self) -> float:
        """The share of frames that the dataset's cache answered, 0 to 1."""
        return self.dataset.store.cache.hit_rate

    @property
    def epoch(self) -> int:
        """The epoch that `state_dict` speaks of: the one being read, or the next where that one is finished."""
        return self._progress.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be over this epoch; where it would anyway (say, in the middle), nothing changes."""
        self._progress.set_epoch(epoch)

    def skip_batches(self, count: int) -> None:
        """Let the next pass leave out the first `count` batches of its epoch, unread (ImageLoader.skip_batches)."""
        self._progress.skip_to(min(count * self._cut.find().step, len(self.dataset)))

    def epoch_ids(self, epoch: int) -> NDArray[np.int64]:
        """The sample ids of a whole epoch in the order of all ranks together: int64 [n]."""
        return self._order(self._rule, epoch)

    def _order(self, rule: OrderRule, epoch: int) -> NDArray[np.int64]:
        return epoch_order(rule, epoch, np.arange(len(self.dataset)), self._chunks)

    def state_dict(self) -> dict[str, int | str]:
        """Where this loader stands, counted in batches handed out: JSON, under 1 KB, the same on every rank."""
        return LoaderState.of(self._progress, self._rule, self._fingerprint()).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly there, with any number of ranks and threads. Raises UsageError for a state of other data."""
        found = LoaderState.from_dict(state, samples=self._fingerprint(), total=len(self.dataset))
        self._rule = found.rule
        self._progress.go_to(found.epoch, found.position)

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

    def __iter__(self) -> Iterator[Any]:
        """The next epoch, or the rest of one after `load_state_dict`. Its threads end with it."""
        return _Batches(BatchIterator(self._find_start, self._start_run, self._progress, self.stats))

    def _find_start(self) -> Start:
        return Start(*self._progress.next, self._rule, self._cut.find())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.dataset)} samples, batch_size={self.batch_size}, "
            f"shuffle={self._rule.shuffle!r}, rank={self._cut.ranks})"
        )

    def __getstate__(self) -> dict[str, Any]:
        place = copy(self._progress), self._rule, self._cut.ranks
        return {"dataset": self.dataset, "options": self._options, "place": place}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go on where the pickled loader was."""
        self.__init__(state["dataset"], **state["options"])  # type: ignore[misc]
        self._progress, self._rule, self._cut.ranks = state["place"]

    def _start_run(self, start: Start, position: int) -> Run:
        rule, epoch = start.rule, start.epoch
        share = cut_order(start.cut, len(self.dataset), position)
        stream = self._order(rule, epoch)[share.positions]
        self._store.chunks.expect(self._chunk_keys(stream), rule.group_blocks)
        plan = RunPlan(
            seed=rule.seed,
            epoch=epoch,
            stream=stream,
            share=share,
            windows=np.array([0, len(stream)], np.int64),
            labels=np.zeros(len(self.dataset), np.int32),
            workers=self.workers,
            io_workers=1,
            prefetch=self._prefetch,
            slice_size=1,
            verify=False,
        )
        run = Run(plan, self._decoder, _ClipArrays(), self.stats)
        run.start()
        return run

    def _chunk_keys(self, stream: NDArray[np.int64]) -> list[ChunkKey]:
        """The chunks of these samples, each where it is first needed."""
        numbers = self._chunks[stream]
        ordered = numbers[np.sort(np.unique(numbers, return_index=True)[1])]
        recordings = np.searchsorted(self._first_chunks, ordered, side="right") - 1
        return list(zip(recordings.tolist(), (ordered - self._first_chunks[recordings]).tolist()))

    def _fingerprint(self) -> str:
        spans = [drive.windows.starts for drive in self.dataset.store.recordings]
        return fingerprint(self._chunks, self.dataset.recording_of, *spans)


class _Batches:
    """The batches of one epoch without the tuple that the image loader wraps them in."""

    def __init__(self, batches: BatchIterator) -> None:
        self._batches = batches

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        return next(self._batches)[0]

    def close(self) -> None:
        """End the threads; twice is fine."""
        self._batches.close()


class _ClipArrays:
    """Where clips lie between reading and collating: arrays of objects, new for every batch."""

    def take(self, count: int) -> NDArray[Any]:
        return np.empty(count, object)


class _ClipDecoder:
    """Reads and decodes clips on the loader's threads (running/run.py: Decoder)."""

    def __init__(
        self,
        dataset: ClipDataset,
        store: FrameStore,
        vary: str,
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

    def decode(self, scratch: Any, fill: Any, job: BatchJob, first: int, end: int) -> None:
        for n in range(first, end):
            job.images[n] = self._dataset.read(int(job.ids[n]), self._store)

    def finish(self, job: BatchJob) -> None:
        batch = collate(list(job.images), vary=self._vary, squeeze=self._dataset.squeeze, memory=self._memory)
        job.images = job.images[:0]  # what is copied may be read into again, while the batch waits for its turn
        self._memory.allow(self._batches * batch.stacked_bytes)
        job.output = (batch if self._batch_op is None else self._batch_op(batch),)


def _first_chunks(dataset: ClipDataset) -> NDArray[np.int64]:
    """The number of each recording's first chunk, where chunks are counted over all recordings: int64 [recordings]."""
    counts = [len(dataset.store.chunks.bounds(n)) - 1 for n in range(len(dataset.store.recordings))]
    return np.cumsum([0, *counts[:-1]])
