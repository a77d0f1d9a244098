"""How well an order mixes the classes, as a number: what batches hold against what a uniform shuffle would give."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from trainload.images.loading.picture_sets import open_set
from trainload.running.order import OrderRule, Shuffle
from trainload.running.selection import select

MOST_BATCHES = 512  # enough for a mean; an epoch of ImageNet has 5,000


@dataclass(frozen=True, slots=True)
class ShuffleQuality:
    """Distinct classes per batch.

    classes_per_batch: mean over the first full batches of the epoch. ideal: what batches drawn at random without
    replacement hold on average. ratio: the first over the second; 1.0 is a uniform shuffle.
    """

    classes_per_batch: float
    ideal: float

    @property
    def ratio(self) -> float:
        return self.classes_per_batch / self.ideal if self.ideal else 1.0


def shuffle_quality(labels: NDArray[np.integer], batch_size: int) -> ShuffleQuality:
    """`labels`: the classes of an epoch's samples in their order. The whole epoch is one batch where it is shorter."""
    size = min(batch_size, len(labels))
    if size == 0:
        return ShuffleQuality(0.0, 0.0)
    batches = min(len(labels) // size, MOST_BATCHES)
    rows = np.sort(labels[: batches * size].reshape(batches, size), axis=1)
    distinct = 1 + (rows[:, 1:] != rows[:, :-1]).sum(axis=1)
    return ShuffleQuality(float(distinct.mean()), _ideal_classes(np.unique(labels, return_counts=True)[1], size))


def quality_by_order(ds: object, batch_size: int, *, group_blocks: int = 8) -> dict[str, ShuffleQuality]:
    """The quality of each kind of order over a whole set: "none", "group" where it has blocks, "full"."""
    _, samples = open_set(ds)
    selection = select(len(samples.labels), samples.blocks, None, None)
    kinds: tuple[Shuffle, ...] = ("none", "group", "full") if samples.has_blocks else ("none", "full")
    orders = {kind: selection.order(OrderRule(0, kind, group_blocks), 0) for kind in kinds}
    return {kind: shuffle_quality(samples.labels[order], batch_size) for kind, order in orders.items()}


def _ideal_classes(class_counts: NDArray[np.integer], size: int) -> float:
    """Expected distinct classes of `size` draws without replacement: the sum over classes of 1 - P(not drawn)."""
    total = int(class_counts.sum())
    expected = 0.0
    for count, classes in zip(*np.unique(class_counts, return_counts=True)):
        others = total - int(count)
        missing = np.exp(_log_choose(others, size) - _log_choose(total, size)) if others >= size else 0.0
        expected += float(classes) * (1.0 - float(missing))
    return expected


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
