"""What training libraries look up on a torch DataLoader, for loaders that are none."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Self

from torch.utils.data import Sampler

from trainload.errors import UsageError
from trainload.running.order import Last


class DataLoaderParts:
    """The attributes of a torch DataLoader that Lightning, Accelerate and transformers' Trainer use.

    `accelerate.skip_first_batches(loader, n)` (the Trainer resumes by it) makes a DataLoader of dataset, batch_sampler
    and collate_fn. For an empty list of indices a DataLoader reads nothing. So `batch_sampler` gives one empty list per
    batch, and `collate_fn` the loader's next batch, after the lists that were left out: none of those is read.
    """

    num_workers = 0  # threads do the work
    prefetch_factor = None
    multiprocessing_context = None
    persistent_workers = False
    worker_init_fn = None
    generator = None
    timeout = 0
    pin_memory = False  # batches are on their device

    last: Last
    _turns: weakref.ref[_Turns] | None = None  # those of the DataLoader that runs

    @property
    def drop_last(self) -> bool:
        """True where what fills no whole step is left out."""
        return self.last == "drop"

    @property
    def sampler(self) -> Self:
        """Itself: training loops call `loader.sampler.set_epoch(epoch)`."""
        return self

    @property
    def batch_sampler(self) -> BatchTurns:
        return BatchTurns(self)

    def collate_fn(self, samples: Sequence[Any]) -> Any:
        turns = None if self._turns is None else self._turns()
        if turns is None or samples:
            raise UsageError("collate_fn gives this loader's own batches, in the turns of its batch_sampler alone")
        return turns.take(self)


class BatchTurns(Sampler[list[int]]):
    """One empty list for each batch of an epoch: what stands for it where batches are counted and left out."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        turns = _Turns()  # lives as long as this generator: no cycle keeps the loader's threads
        self._loader._turns = weakref.ref(turns)
        for number in range(len(self._loader)):
            turns.number = number
            yield []


class _Turns:
    """One pass in turns. number: of the list that was asked for last."""

    def __init__(self) -> None:
        self.number = 0
        self._expected = 0
        self._batches: Iterator[Any] | None = None

    def take(self, loader: Any) -> Any:
        if self._batches is None:
            loader.skip_batches(self.number)
            self._batches = iter(loader)
        elif self.number != self._expected:
            raise UsageError(
                f"batch {self.number} was asked for where {self._expected} is next: the loader gives each process its "
                "own share already; leave it out of accelerator.prepare_data_loader and of samplers that cut batches"
            )
        self._expected = self.number + 1
        return next(self._batches)
