"""What `ops` of a loader may hold, as types. Knows no operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainload.running.philox import Draws

Spec = tuple[str, list[float]]
Labels = NDArray[Any]
Images = NDArray[Any]


@dataclass(frozen=True)
class BatchContext:
    """What a batch operation may depend on besides the pixels and labels.

    ids: the samples of the batch, in order. layout: "NHWC", "NCHW" or "NHWC4", of the images. first_draw: how often the
    epoch has had the first sample before.
    """

    seed: int
    epoch: int
    ids: NDArray[np.integer]
    layout: str
    first_draw: int = 0

    def draws(self, operation: int) -> Draws:
        """The random numbers of the operation at this position of the user's list."""
        return Draws(self.seed, self.epoch, int(self.ids[0]), operation, self.first_draw)


@runtime_checkable
class PictureOperation(Protocol):
    """An operation on single pictures: a request that the core carries out, such as `Resize`."""

    def spec(self) -> Spec:
        """The request: a kind that the core knows and at most 16 numbers (cpp/core/op_spec.h). Raises UsageError."""
        ...


@runtime_checkable
class BatchOperation(Protocol):
    """An operation on finished batches with random numbers of its own, such as `MixUp`."""

    def apply(self, images: Images, labels: Labels, context: BatchContext, operation: int) -> tuple[Images, Labels]:
        """The batch after the operation; `images` may be changed in place. operation: its position in the list."""
        ...


class OwnOperation:
    """Every operation of trainload's: type checkers see a list of several kinds as a list of these."""


BatchCallable = Callable[[Any, Any], tuple[Any, Any]]
Operation = PictureOperation | BatchOperation | BatchCallable | OwnOperation
