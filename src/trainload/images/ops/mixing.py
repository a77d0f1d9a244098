"""MixUp and CutMix on finished batches, in place: each picture meets the one before it, the first meets the last.

What a batch becomes is a pure function of (seed, epoch, its sample ids and their draw numbers): the random numbers are
named by the batch's first id and draw.
A resume, `loader.batch(ids)` and another number of threads give the same bits; so does another number of ranks with
the same batch size per rank, since ranks share out whole batches of one global order. Sources: Zhang et al.,
arXiv:1710.09412; Yun et al., arXiv:1905.04899; names, defaults and sums as in torchvision.transforms.v2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trainload.errors import UsageError
from trainload.images.ops.protocols import BatchContext, BatchOperation, Images, Labels, OwnOperation
from trainload.running.philox import Draws


@dataclass(frozen=True)
class MixUp(OwnOperation, BatchOperation):
    """Pictures and labels blended with one weight per batch, drawn from Beta(alpha, alpha).

    num_classes: labels int [n] become float32 [n, num_classes]; None: they are [n, classes] already.
    Floating pictures keep their type; uint8 is rounded to the nearest.
    """

    alpha: float = 1.0
    num_classes: int | None = None

    def __post_init__(self) -> None:
        _check(self.alpha, self.num_classes)

    def apply(self, images: Images, labels: Labels, context: BatchContext, operation: int) -> tuple[Images, Labels]:
        """Mix a batch in place; returns it with its new labels. Three pictures of extra memory."""
        targets = _one_hot(labels, self.num_classes)
        if not len(images):
            return images, targets
        weight = beta(context.draws(operation), self.alpha)
        working = np.promote_types(images.dtype, np.float32)
        share = np.multiply(images[-1], 1.0 - weight, dtype=working)  # of the picture before, in the mixture
        next_share, mixed = np.empty_like(share), np.empty_like(share)
        for image in images:
            np.multiply(image, 1.0 - weight, out=next_share, dtype=working)
            np.multiply(image, weight, out=mixed, dtype=working)
            mixed += share
            image[...] = np.rint(mixed, out=mixed) if images.dtype == np.uint8 else mixed
            share, next_share = next_share, share
        return images, _mix_labels(targets, weight)


@dataclass(frozen=True)
class CutMix(OwnOperation, BatchOperation):
    """A box of each picture comes from the one before it; labels are blended by the areas.

    One box per batch: its area is 1 - Beta(alpha, alpha) of the picture, cut at the edges. num_classes: as in MixUp.
    """

    alpha: float = 1.0
    num_classes: int | None = None

    def __post_init__(self) -> None:
        _check(self.alpha, self.num_classes)

    def apply(self, images: Images, labels: Labels, context: BatchContext, operation: int) -> tuple[Images, Labels]:
        """Mix a batch in place; returns it with its new labels. The boxes' memory is needed once more."""
        targets = _one_hot(labels, self.num_classes)
        if not len(images):
            return images, targets
        height, width = images.shape[2:4] if context.layout == "NCHW" else images.shape[1:3]
        left, top, right, bottom = cut_box(context.draws(operation), self.alpha, height, width)
        rows, columns = slice(top, bottom), slice(left, right)
        boxes = images[:, :, rows, columns] if context.layout == "NCHW" else images[:, rows, columns]
        boxes[...] = np.roll(boxes, 1, axis=0)
        return images, _mix_labels(targets, 1.0 - (right - left) * (bottom - top) / (width * height))


def cut_box(draws: Draws, alpha: float, height: int, width: int) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of CutMix: the weight is drawn first, then the centre's x, then its y."""
    half = 0.5 * math.sqrt(1.0 - beta(draws, alpha))
    x, y = draws.below(width), draws.below(height)
    half_width, half_height = int(half * width), int(half * height)
    return max(x - half_width, 0), max(y - half_height, 0), min(x + half_width, width), min(y + half_height, height)


def beta(draws: Draws, alpha: float) -> float:
    """One number of the Beta(alpha, alpha) distribution, from two gamma numbers whose logarithms cannot underflow."""
    if alpha == 1.0:
        return draws.uniform()
    difference = _log_gamma_number(draws, alpha) - _log_gamma_number(draws, alpha)
    return 1.0 / (1.0 + math.exp(-difference)) if difference > -700.0 else 0.0


def _log_gamma_number(draws: Draws, shape: float) -> float:
    """Logarithm of a Gamma(shape) number: Marsaglia and Tsang, "A simple method for generating gamma variables"."""
    if shape < 1.0:
        boost = math.log(1.0 - draws.uniform()) / shape
        return _log_gamma_number(draws, shape + 1.0) + boost
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log(1.0 - draws.uniform()))
        normal = radius * math.cos(2.0 * math.pi * draws.uniform())
        v = (1.0 + c * normal) ** 3
        if v > 0.0 and math.log(1.0 - draws.uniform()) < 0.5 * normal * normal + d * (1.0 - v + math.log(v)):
            return math.log(d) + math.log(v)


def _check(alpha: float, num_classes: int | None) -> None:
    if not 0.0 < alpha < math.inf:
        raise UsageError(f"alpha is {alpha}; it must be above 0")
    if num_classes is not None and num_classes < 1:
        raise UsageError(f"num_classes is {num_classes}; it must be above 0")


def _one_hot(labels: Labels, num_classes: int | None) -> Labels:
    if labels.ndim == 2:
        return labels
    if num_classes is None:
        raise UsageError("MixUp and CutMix need num_classes, or labels of shape [n, classes]")
    if labels.size and not 0 <= labels.min() <= labels.max() < num_classes:
        raise UsageError(f"num_classes is {num_classes}, but the batch has a label {labels.max()}")
    targets = np.zeros((len(labels), num_classes), dtype=np.float32)
    targets[np.arange(len(labels)), labels] = 1.0
    return targets


def _mix_labels(targets: Labels, weight: float) -> Labels:
    mixed: Labels = np.roll(targets, 1, axis=0) * (1.0 - weight) + targets * weight
    return mixed
