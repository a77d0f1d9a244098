"""The samples of a set that a loader uses, and the orders of their epochs."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainload.errors import UsageError
from trainload.running.order import DRAWS_SINCE, MOST_REPEATED, OrderRule, draw_numbers, epoch_order


class Selection:
    """ids: int64 [n], the samples in the order given. weights: float64 [n] or None. blocks: int64 [n], their blocks.

    repeat: how often each position of an order comes in a row. The length is that of an epoch, repeats counted.
    """

    def __init__(
        self,
        ids: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        blocks: NDArray[np.int64],
        repeat: int = 1,
    ) -> None:
        self.ids = ids
        self.repeat = repeat
        self.weights = weights
        self.blocks = blocks
        self._orders: dict[tuple[OrderRule, int], tuple[NDArray[np.int64], NDArray[np.uint32] | None]] = {}

    def __len__(self) -> int:
        return len(self.ids) * self.repeat

    @cached_property
    def repeats(self) -> bool:
        """True where an epoch may have a sample more than once."""
        if self.repeat > 1:
            return True
        ascending = bool((self.ids[1:] > self.ids[:-1]).all())
        return self.weights is not None or not (ascending or len(np.unique(self.ids)) == len(self.ids))

    def order(self, rule: OrderRule, epoch: int) -> NDArray[np.int64]:
        """The ids of an epoch in order. The last two orders asked for are kept, so `order(rule, epoch + 1)` on another
        thread makes the next epoch start at once.
        """
        return self._find(rule, epoch)[0]

    def draws(self, rule: OrderRule, epoch: int) -> NDArray[np.uint32] | None:
        """For every position of that order, how many earlier ones hold the same sample: uint32 [n]; None is all 0."""
        return self._find(rule, epoch)[1]

    def _find(self, rule: OrderRule, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.uint32] | None]:
        found = self._orders.get((rule, epoch))
        if found is None:
            order = epoch_order(rule, epoch, self.ids, self.blocks, self.weights)
            order = order if self.repeat == 1 else np.repeat(order, self.repeat)
            found = order, draw_numbers(order) if self.repeats and rule.version >= DRAWS_SINCE else None
            newest = list(self._orders.items())[-1:]
            self._orders = dict([*newest, ((rule, epoch), found)])
        return found


def select(
    count: int,
    blocks: NDArray[np.int64],
    indices: ArrayLike | None,
    weights: ArrayLike | None,
    repeat: int = 1,
) -> Selection:
    """Check the caller's choice from a set of `count` samples. Raises UsageError.

    indices: ids, or one bool per sample; None is all. weights: one number >= 0 per chosen sample, not all 0. repeat:
    how often each position of an order comes in a row.
    """
    ids = np.arange(count, dtype=np.int64) if indices is None else _checked_ids(np.asarray(indices), count)
    if weights is None:
        return _within_limits(Selection(ids, None, blocks[ids], repeat), count)
    numbers = np.asarray(weights, np.float64)
    if numbers.shape != ids.shape:
        raise UsageError(f"weights need one number per sample: {len(ids):,}, not {numbers.shape}")
    if not np.isfinite(numbers).all() or (numbers < 0).any() or not numbers.any():
        raise UsageError("weights must be finite numbers, none below 0, not all 0")
    return _within_limits(Selection(ids, numbers, blocks[ids], repeat), count)


def _within_limits(selection: Selection, count: int) -> Selection:
    if max(count, len(selection)) > MOST_REPEATED and selection.repeats:
        raise UsageError("weights, repeat and repeated indices need a set of at most 2^32 samples, and epochs as long")
    return selection


def checked_draws(given: ArrayLike, count: int) -> NDArray[np.uint32]:
    """Draw numbers as the caller gives them, one for all or one per sample: uint32 [count]. Raises UsageError."""
    draws = np.asarray(given)
    if draws.shape not in ((), (count,)) or not np.issubdtype(draws.dtype, np.integer):
        raise UsageError(f"draws must be one integer, or one per sample: {count:,}")
    if draws.size and not 0 <= int(draws.min()) <= int(draws.max()) < MOST_REPEATED:
        raise UsageError(f"draws must lie in 0 .. 2^32 - 1; found {draws.min()} .. {draws.max()}")
    return np.ascontiguousarray(np.broadcast_to(draws, count), np.uint32)


def _checked_ids(given: NDArray[np.generic], count: int) -> NDArray[np.int64]:
    if given.dtype == np.bool_ and given.shape == (count,):
        return np.flatnonzero(given).astype(np.int64)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise UsageError(f"indices must be one row of sample ids, or {count:,} bools")
    ids = given.astype(np.int64)
    if ids.size and not (ids.min() >= 0 and ids.max() < count):
        raise UsageError(f"indices must lie in 0 .. {count - 1}; found {ids.min()} .. {ids.max()}")
    return ids
