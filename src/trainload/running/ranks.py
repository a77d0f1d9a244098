"""Which of how many training processes this is, and the cut that follows: looked up when asked, not when made."""

from __future__ import annotations

import os
import sys
import warnings

from trainload.errors import UsageError
from trainload.running.order import Cut, Last


class Ranks:
    """Rank and world size as given, else those of torch.distributed whenever they are asked for.

    A process group may come after the loader. One that has gone is remembered, also where the loader is pickled (into
    a worker, which has none). Without any, a WORLD_SIZE above 1 in the environment is a process of several whose share
    nobody knows: that is refused.
    """

    def __init__(self, rank: int | None, world_size: int | None) -> None:
        if (rank is None) != (world_size is None):
            raise UsageError("give rank and world_size together, or neither")
        self._given = None if rank is None or world_size is None else (rank, world_size)
        self._group: tuple[int, int] | None = None
        if self._given is not None and not 0 <= self._given[0] < self._given[1]:
            raise UsageError(f"rank {rank} is not in 0 .. world_size - 1 = {self._given[1] - 1}")

    def find(self) -> tuple[int, int]:
        """(rank, world size). Raises UsageError where this is one process of several and its rank is not known."""
        found, announced = self._known(), announced_world_size()
        if found is not None:
            return found
        if announced > 1:
            raise UsageError(
                f"WORLD_SIZE is {announced}, but torch.distributed is not initialised, so it is not known which share "
                "of the samples this process takes: call torch.distributed.init_process_group before the loader is "
                "iterated, or give rank= and world_size= (rank=0, world_size=1 reads everything in every process)"
            )
        return 0, 1

    @property
    def expected_size(self) -> int:
        """The world size, as far as it is known before there is a process group."""
        found = self._known()
        return announced_world_size() if found is None else found[1]

    def _known(self) -> tuple[int, int] | None:
        if self._given is not None:
            return self._given
        self._group = _process_group() or self._group
        return self._group

    def __repr__(self) -> str:
        found = self._known()
        if found is None and announced_world_size() > 1:
            return f"not known yet, of {announced_world_size()}"
        return "{} of {}".format(*(found or (0, 1)))


class RankCut:
    """How this process cuts an order of `total` positions, by what is known of the ranks at the time."""

    def __init__(self, ranks: Ranks, batch_size: int, last: Last, total: int) -> None:
        self.ranks = ranks
        self.devices = 1  # of this process
        self._batch_size = batch_size
        self._last = last
        self._total = total
        self._cut(0, ranks.expected_size)
        if total == 0 and last != "drop":
            warnings.warn("the loader has no samples, so it makes no batches", stacklevel=5)

    def deal(self, devices: int) -> None:
        """Let each process have as many batches in a step. Raises UsageError where no batch is left."""
        self.devices = devices
        self._cut(0, self.ranks.expected_size)

    def find(self) -> Cut:
        """The cut of a pass that begins now. Raises UsageError where the rank is not known, or no batch is made."""
        return self._cut(*self.ranks.find())

    @property
    def expected_ranks(self) -> int:
        """How many share a step, each device for itself, as far as it is known before there is a process group."""
        return self.ranks.expected_size * self.devices

    def num_batches(self) -> int:
        """Batches of a whole epoch; before there is a process group, by the world size that the environment names."""
        return self._cut(0, self.ranks.expected_size).num_batches(self._total)

    def _cut(self, rank: int, world_size: int) -> Cut:
        cut = Cut(self._batch_size, rank, world_size, self._last, self.devices)
        if self._last == "drop" and self._total < cut.step:
            of_ranks = f" for each of {world_size} ranks" if world_size > 1 else ""
            of_ranks += f" with {self.devices} devices" if self.devices > 1 else ""
            raise UsageError(
                f"last='drop' leaves no batch: {self._total:,} samples are fewer than a batch of {self._batch_size:,}"
                f"{of_ranks}; take a smaller batch_size, or last='short' or 'pad'"
            )
        return cut


def announced_world_size() -> int:
    """The number of processes that a launcher (torchrun and those that follow it) names in WORLD_SIZE, else 1."""
    text = os.environ.get("WORLD_SIZE", "")
    return max(1, int(text)) if text.isdecimal() else 1


def _process_group() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")  # looked up, never imported: torch belongs to the adapter
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()
