"""What all loaders have in common, for whoever takes any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainload.memory.plan import MemoryPlan
from trainload.running.stats import LoaderStats

Batch_co = TypeVar("Batch_co", covariant=True)


@runtime_checkable
class Loader(Protocol[Batch_co]):
    """A loader of pictures or of recordings, in numpy arrays, torch tensors or JAX arrays.

    `for batch in loader` is one epoch, the next `for` the next. `with loader:` closes it at the end.
    """

    @property
    def batch_size(self) -> int:
        """Samples of a whole batch."""

    @property
    def epoch(self) -> int:
        """The epoch that `state_dict` speaks of: the one being read, or the next where that one is finished."""

    @property
    def stats(self) -> LoaderStats:
        """What the loader did and where its time went."""

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""

    def __iter__(self) -> Iterator[Batch_co]:
        """The next epoch, or the rest of one after `load_state_dict`."""

    def __enter__(self) -> Self:
        """The loader itself."""

    def __exit__(self, *error: object) -> None:
        """Close it."""

    def close(self) -> None:
        """Give all buffers back; the loader iterates no more."""

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be over this epoch; where it would anyway (say, in the middle), nothing changes."""

    def skip_batches(self, count: int) -> None:
        """Let the next pass leave out the first `count` batches of its epoch, unread."""

    def epoch_ids(self, epoch: int) -> NDArray[np.int64]:
        """The sample ids of a whole epoch in the order of all ranks together: int64 [n]."""

    def memory_plan(self) -> MemoryPlan:
        """Every buffer of this loader, in bytes."""

    def state_dict(self) -> dict[str, int | str]:
        """Where this loader stands, in batches handed out: under 1 KB, JSON. The same on every rank."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly there, with any number of ranks and threads. Raises UsageError for a state of other data."""
