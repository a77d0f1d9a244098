"""How often each sample of a dataset was asked for, in memory that all DataLoader workers share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainload import _core
from trainload.errors import UsageError
from trainload.running.order import checked_epoch

_HEAD = 2  # numbers before the counts: the epoch, and whether it was named


class Asks:
    """Gives every ask for a sample an epoch and a draw number, so that no two asks draw the same random numbers.

    The k-th ask since `set_epoch(e)` (or since the beginning, in epoch 0) is draw k of epoch e, from 0, in whatever
    worker process. With W ranks, which all count for themselves, rank r has the draws k W + r instead; but once an
    epoch was named, a first ask is draw 0 on every rank: the picture that `trainload.ImageLoader` has in that epoch.
    Workers of any kind (fork, spawn, forkserver) share the counts; a copy by plain pickle begins with those of its
    origin and counts on for itself. 4 bytes per sample. Raises UsageError where shared memory has no room for them.
    """

    def __init__(self, samples: int) -> None:
        self._attach(torch.zeros(_HEAD + samples, dtype=torch.int32), None)

    def _attach(self, table: torch.Tensor, place: tuple[int, int] | None) -> None:
        """place: rank and world size of the process that this was sent from."""
        try:
            self._table: torch.Tensor = table.share_memory_()
        except RuntimeError as error:
            raise UsageError(
                f"shared memory has no room to count {len(table) - _HEAD:,} samples ({4 * len(table):,} bytes), so "
                f"that DataLoader workers draw anew in each epoch; make it larger (docker run --shm-size): {error}"
            ) from error
        self._place = place
        numbers = self._table.numpy().view(np.uint32)
        self._head: NDArray[np.uint32] = numbers[:_HEAD]
        self._counts: NDArray[np.uint32] = numbers[_HEAD:]

    @property
    def epoch(self) -> int:
        """That of the asks to come."""
        return int(self._head[0])

    def set_epoch(self, epoch: int) -> None:
        """Let the asks from here on, in every worker, be of this epoch, and the next one for each sample draw 0."""
        epoch = checked_epoch(epoch)
        self._counts[:] = 0
        self._head[:] = epoch, 1

    def take(self, ids: NDArray[np.int64]) -> tuple[int, NDArray[np.uint32]]:
        """Count these asks: their epoch, and the draw number of each, uint32 [n]."""
        before = np.empty(len(ids), np.uint32)
        epoch, named = self._head.tolist()
        _core.count_up(self._counts, ids, before)
        rank, world_size = _find_place(self._place)
        draws = before * np.uint32(world_size) + np.uint32(rank)
        if named:
            draws[before == 0] = 0
        return epoch, draws

    def __reduce__(self) -> tuple[Any, ...]:
        return _attached, (self._table, _find_place(self._place))


def _attached(table: torch.Tensor, place: tuple[int, int]) -> Asks:
    """What was pickled: torch hands a worker the same memory, and others a copy."""
    asks = Asks.__new__(Asks)
    asks._attach(table, place)
    return asks


def _find_place(sent: tuple[int, int] | None) -> tuple[int, int]:
    """(rank, world size): of torch.distributed, else of the process that this was sent from, else as torchrun says."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    if sent is not None and sent[1] > 1:
        return sent
    rank, world_size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdecimal() and world_size.isdecimal() and int(rank) < int(world_size) < 1 << 20:
        return int(rank), int(world_size)
    return 0, 1
