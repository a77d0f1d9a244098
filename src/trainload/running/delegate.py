"""A loader around a loader: what adapters to other arrays share. They change batches, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainload.memory.plan import MemoryPlan
from trainload.running.loader import EpochLoader, rebuilt
from trainload.running.order import Last
from trainload.running.stats import LoaderStats

Inner = TypeVar("Inner", bound=EpochLoader)


class LoaderDelegate(Generic[Inner]):
    """Everything of `loader` but its batches. options: what makes the same adapter again, over the same dataset."""

    def __init__(self, loader: Inner, options: Mapping[str, Any]) -> None:
        self.loader = loader
        self._options = dict(options)
        self.dataset = loader.dataset
        self.batch_size = loader.batch_size
        self.last: Last = loader.last

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank."""
        return len(self.loader)

    @property
    def epoch(self) -> int:
        """The epoch that `state_dict` speaks of: the one being read, or the next where that one is finished."""
        return self.loader.epoch

    @property
    def rank(self) -> int:
        """Which process this is, of `world_size`. UsageError where that is not known yet."""
        return self.loader.rank

    @property
    def world_size(self) -> int:
        """How many processes share an epoch. UsageError where that is not known yet."""
        return self.loader.world_size

    @property
    def stats(self) -> LoaderStats:
        """What the loader did and where its time went."""
        return self.loader.stats

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be over this epoch; where it would anyway (say, in the middle), nothing changes."""
        self.loader.set_epoch(epoch)

    def skip_batches(self, count: int) -> None:
        """Let the next pass leave out the first `count` batches of its epoch, unread."""
        self.loader.skip_batches(count)

    def epoch_ids(self, epoch: int) -> NDArray[np.int64]:
        """The sample ids of a whole epoch in the order of all ranks together: int64 [n]."""
        return self.loader.epoch_ids(epoch)

    def memory_plan(self) -> MemoryPlan:
        """Every buffer of the loader on the host, in bytes."""
        return self.loader.memory_plan()

    def state_dict(self) -> dict[str, int | str]:
        """Where this loader stands, in batches handed out: under 1 KB, the same on every rank."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly there, with any number of ranks and threads."""
        self.loader.load_state_dict(state)

    def stand_at(self, place: tuple[Any, ...]) -> None:
        """Go on where the loader was that `place` came from."""
        self.loader.stand_at(place)

    def close(self) -> None:
        """Give the buffers back. Closing is idempotent."""
        self.loader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self.dataset, self._options, self.loader.place())
