"""What a batch of pictures is made in, between the first decoded picture and what the consumer gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainload.errors import SampleError


@dataclass(slots=True)
class PictureBatch:
    """images [n, ...], labels int64 [n], codes int32 [n] (0: decoded well, or not yet).

    reasons: why the picture at a place was not decoded. damage: what was wrong with each that was replaced.
    """

    images: NDArray[Any]
    labels: NDArray[np.int64]
    codes: NDArray[np.int32]
    reasons: dict[int, str] = field(default_factory=dict)
    damage: list[SampleError] = field(default_factory=list)

    @staticmethod
    def into(images: NDArray[Any], labels: NDArray[np.integer]) -> PictureBatch:
        """A batch with these labels, nothing of which is decoded yet."""
        return PictureBatch(images, labels.astype(np.int64), np.zeros(len(labels), np.int32))


class ImageArrays(Protocol):
    """Where pictures are decoded to."""

    def take(self, count: int) -> NDArray[Any] | None:
        """An array for `count` pictures that nobody uses, or None where there is none at the moment."""


class PictureBatches:
    """What a run makes its batches in (running/slices.py: BatchArrays). labels: of the whole set."""

    def __init__(self, arrays: ImageArrays, labels: NDArray[np.integer]) -> None:
        self._arrays = arrays
        self._labels = labels

    def take(self, ids: NDArray[np.int64]) -> PictureBatch | None:
        """A batch of these samples; None where no array is free."""
        images = self._arrays.take(len(ids))
        return None if images is None else PictureBatch.into(images, self._labels[ids])
