"""What every loader is: an exact order with epochs, ranks, state and threads. What a batch holds, a product says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.machine.cpus import usable_cpus
from trainload.memory.plan import MemoryPlan
from trainload.running.arguments import check_choice, check_count
from trainload.running.cursor import Cursor, Start
from trainload.running.iterator import BatchIterator
from trainload.running.lanes import check_lanes, check_ranks
from trainload.running.order import LASTS, Last, OrderRule, Shuffle, checked_seed
from trainload.running.ranks import RankCut, Ranks
from trainload.running.run import Run
from trainload.running.selection import Selection
from trainload.running.slices import BatchArrays, BatchJob
from trainload.running.state import LoaderState, warn_of_equal_repeats
from trainload.running.stats import LoaderStats


class EpochLoader(ABC):
    """`for batch in loader` is one epoch, the next `for` the next (docs/order.md).

    A product's loader says what it is called with (`options`), which samples it has (`selection`), what they are known
    by (`_samples_fingerprint`), where batches are made (`_batch_arrays`), and makes the run of a pass (`_start_run`).

    dataset, batch_size, last: as given. workers: threads that decode. stats: what was done, and where time went.
    """

    def __init__(
        self,
        dataset: Any,
        selection: Selection,
        options: Mapping[str, Any],
        *,
        batch_size: int,
        last: Last,
        rank: int | None,
        world_size: int | None,
        workers: int | None,
    ) -> None:
        """workers: None is one per usable CPU. Raises UsageError for what cannot be."""
        check_choice("last", last, LASTS)
        check_count("batch_size", batch_size)
        if workers is not None:
            check_count("workers", workers)
        self.dataset, self.batch_size, self.last = dataset, batch_size, last
        self.workers = workers or usable_cpus()
        self.stats = LoaderStats()
        self._options = dict(options)
        self._selection = selection
        self._cut = RankCut(Ranks(rank, world_size), batch_size, last, len(selection))
        self._cursor = Cursor()
        self._closed = False

    def _set_order(self, seed: int, shuffle: Shuffle, group_blocks: int, lanes: int = 0) -> None:
        """The order's rule, which is fixed from here on, but for a state that is loaded. lanes: of "lanes" alone."""
        self._rule = OrderRule(checked_seed(seed), shuffle, int(group_blocks), lanes=int(lanes))

    # What a product adds.

    @abstractmethod
    def _samples_fingerprint(self) -> str:
        """What the samples are known by in a state."""

    @abstractmethod
    def _batch_arrays(self) -> BatchArrays:
        """Where the batches of a pass are made."""

    @abstractmethod
    def _start_run(self, start: Start, position: int, arrays: BatchArrays) -> Run:
        """The threads of a pass from `position` on, at work."""

    @abstractmethod
    def memory_plan(self) -> MemoryPlan:
        """Every buffer of this loader, in bytes."""

    @abstractmethod
    def _free(self) -> None:
        """Give all buffers back; iterators that are still running keep theirs."""

    def _new_check(self) -> Callable[[BatchJob], None] | None:
        """What each batch of a pass must go through before it is handed out."""
        return None

    # Order and state.

    def deal(self, devices: int) -> None:
        """Let each step have as many batches, those of `devices` ranks in a row: `len` counts steps from here on."""
        self._cut.deal(devices)

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
    def epoch(self) -> int:
        """The epoch that `state_dict` speaks of: the one being read, or the next where that one is finished."""
        return self._cursor.epoch

    @property
    def seed(self) -> int:
        """That of the order and of all random numbers."""
        return self._rule.seed

    @property
    def shuffle(self) -> Shuffle:
        """The kind of order in use: "none", "group", "full" or "weighted"."""
        return self._rule.shuffle

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be over this epoch; where it would anyway (say, in the middle), nothing changes.

        An iterator that has handed out nothing yet follows; one that has goes on as it was.
        """
        self._cursor.set_epoch(epoch)

    def skip_batches(self, count: int) -> None:
        """Let the next pass leave out the first `count` batches of its epoch: none of them is read or decoded.

        Counted from the epoch's start: where a loaded state is as far or farther, nothing changes.
        """
        self._cursor.skip_to(min(count * self._cut.find().step, len(self._selection)))

    def epoch_ids(self, epoch: int) -> NDArray[np.int64]:
        """The sample ids of a whole epoch in the order of all ranks together: int64 [n]."""
        return self._selection.order(self._rule, epoch).copy()

    def epoch_draws(self, epoch: int) -> NDArray[np.uint32]:
        """For every position of `epoch_ids`, how many earlier ones hold the same sample: uint32 [n]."""
        draws = self._selection.draws(self._rule, epoch)
        return np.zeros(len(self._selection), np.uint32) if draws is None else draws.copy()

    def state_dict(self) -> dict[str, int | str]:
        """Where this loader stands, counted in batches handed out: under 1 KB, JSON. The same on every rank."""
        return LoaderState.of(self._cursor, self._rule, self._fingerprint, self._selection.repeat).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly there, with any number of ranks and threads; takes over seed and kind of order. UsageError."""
        found = LoaderState.from_dict(
            state, samples=self._fingerprint, total=len(self._selection), repeat=self._selection.repeat
        )
        if found.lanes:
            check_lanes(found.lanes, self._selection.blocks)
        warn_of_equal_repeats(found.rule, self._selection.repeats)
        self._rule = found.rule
        self._cursor.go_to(found.epoch, found.position)

    @cached_property
    def _fingerprint(self) -> str:
        return self._samples_fingerprint()

    # Batches.

    def __iter__(self) -> BatchIterator:
        """The next epoch, or the rest of one after `load_state_dict`. Threads start at once, a batch takes it."""
        return self._iterate(self._batch_arrays())

    def _iterate(self, arrays: BatchArrays) -> BatchIterator:
        if self._closed:
            raise UsageError("the loader was closed")

        def start_run(start: Start, position: int) -> Run:
            return self._start_run(start, position, arrays)

        return BatchIterator(self._find_start, start_run, self._cursor, self.stats, self._new_check())

    def _find_start(self) -> Start:
        cut = self._cut.find()
        if self._rule.lanes:
            check_ranks(self._rule.lanes, cut.ranks)
        return Start(*self._cursor.next, self._rule, cut)

    def close(self) -> None:
        """Give all buffers back. Iterators that are still running keep theirs until they end. Closing is idempotent."""
        self._closed = True
        self._free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Copies.

    def place(self) -> tuple[Any, ...]:
        """What a copy needs, beside the set and the options, to go on where this loader is: picklable."""
        return copy(self._cursor), self._rule, self._cut.ranks

    def stand_at(self, place: tuple[Any, ...]) -> None:
        """Go on where the loader was that `place` came from."""
        self._cursor, self._rule, self._cut.ranks = place

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self.dataset, self._options, self.place())


def rebuilt(kind: type[Any], dataset: Any, options: dict[str, Any], place: tuple[Any, ...]) -> Any:
    """A loader of this kind that goes on at a place: what a pickled one becomes."""
    loader = kind(dataset, **options)
    loader.stand_at(place)
    return loader
