"""The user's list of operations, cut in two: what the core does per picture, and what runs on finished batches.

    crops and resizes | colours, blur, rotation, policies | Normalize | MixUp, CutMix, any callable
    flips stand anywhere before the batch operations; RandomErasing after the colours, also after Normalize

Any Python callable takes (images, labels) of a batch and returns them. From the first one on, all runs per batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard

import numpy as np

from trainload.errors import UsageError
from trainload.images.ops.operations import Normalize, RandomErasing
from trainload.images.ops.protocols import (
    BatchCallable,
    BatchContext,
    BatchOperation,
    Images,
    Labels,
    PictureOperation,
)
from trainload.running.philox import OPERATION_LIMIT

Out = Literal["uint8", "float32", "float16"]

_GEOMETRY, _ERASING = 0, 2

# The kinds in the order in which their groups must stand; flips may stand anywhere.
_STAGES = {
    "random_resized_crop": _GEOMETRY,
    "resize": _GEOMETRY,
    "random_scale": _GEOMETRY,
    "center_crop": _GEOMETRY,
    "random_crop": _GEOMETRY,
    "pad": _GEOMETRY,
    "color_jitter": 1,
    "random_grayscale": 1,
    "random_autocontrast": 1,
    "gaussian_blur": 1,
    "gaussian_noise": 1,
    "random_rotation": 1,
    "rand_augment": 1,
    "auto_augment": 1,
    "random_erasing": _ERASING,
}
_DRAW_NOTHING = ("resize", "center_crop", "pad")
_STAGE_NAMES = ("a crop, resize or padding", "an operation on pixels", "RandomErasing")


@dataclass(frozen=True)
class OpSplit:
    """A checked list of operations. The numbers are positions in the user's list: they name the random numbers.

    core: run per picture, Normalize left out. normalize: None where there is none. batch: run per batch, in order.
    """

    core: tuple[tuple[int, PictureOperation], ...]
    normalize: Normalize | None
    normalize_position: int
    batch: tuple[tuple[int, BatchOperation | BatchCallable], ...]

    @property
    def random(self) -> tuple[PictureOperation, ...]:
        """Those per picture that draw random numbers."""
        return tuple(op for _, op in self.core if op.spec()[0] not in _DRAW_NOTHING)

    @property
    def mean(self) -> list[float]:
        """Per colour, in units of the full range; zeros without Normalize."""
        return self.normalize.spec()[1][:3] if self.normalize else [0.0] * 3

    @property
    def std(self) -> list[float]:
        """Per colour, in units of the full range; ones without Normalize."""
        return self.normalize.spec()[1][3:] if self.normalize else [1.0] * 3

    def specs(self, out: Out) -> list[tuple[str, int, list[float]]]:
        """The operations as `_core.Pipeline` takes them: (kind, position, numbers). Raises UsageError.

        Values of RandomErasing are brought to the units of the output, in which the core erases.
        """
        specs = []
        for position, op in self.core:
            if isinstance(op, RandomErasing):
                op = self._in_output_units(op, out, after_normalize=position > self.normalize_position)
            kind, numbers = op.spec()
            specs.append((kind, position, [float(number) for number in numbers]))
        return specs

    def output_size(self, picture: tuple[int, int] | None = None) -> tuple[int, int] | None:
        """(height, width) that every picture comes out with; None where that depends on the picture.

        picture: (height, width) of all pictures where they are alike; else a resize by the shorter side is not told.
        """
        size = picture
        for _, op in self.core:
            kind, numbers = op.spec()
            if kind in ("random_resized_crop", "center_crop", "random_crop") or (kind == "resize" and numbers[1]):
                size = int(numbers[0]), int(numbers[1])
            elif kind == "random_scale" or (kind == "resize" and not picture):
                size = None
            elif kind == "resize" and size:
                size = _resized(numbers, size)
            elif kind == "pad" and size:
                size = size[0] + int(numbers[1] + numbers[3]), size[1] + int(numbers[0] + numbers[2])
        return size

    def _in_output_units(self, op: RandomErasing, out: Out, *, after_normalize: bool) -> RandomErasing:
        if isinstance(op.value, str):
            if out == "uint8" or (self.normalize and not after_normalize):
                raise UsageError("RandomErasing(value='random') fills with normal numbers: after Normalize, floats out")
            return op
        given = np.array(op.spec()[1][6:9])
        mean, std = np.array(self.mean), np.array(self.std)
        normalized = self.normalize is not None and after_normalize
        if normalized and out != "uint8":
            return op
        part = given * std + mean if normalized else given / 255.0  # of the full range
        value = np.clip(np.rint(part * 255.0), 0.0, 255.0) if out == "uint8" else (part - mean) / std
        return replace(op, value=tuple(float(number) for number in value))


def _resized(numbers: Sequence[float], size: tuple[int, int]) -> tuple[int, int]:
    """(height, width) after a resize by the shorter side (cpp/core/geometry.h: resize)."""
    shorter, most = int(numbers[0]), int(numbers[2])
    longer = int(shorter * max(size) / min(size))
    if most and longer > most:
        shorter, longer = int(most * shorter / longer), most
    return (longer, shorter) if size[1] <= size[0] else (shorter, longer)


def split_ops(ops: Sequence[object]) -> OpSplit:
    """Cut and check a list of operations. Raises UsageError for what is none, and for an order the core cannot run."""
    if len(ops) >= OPERATION_LIMIT:
        raise UsageError(f"a list of {len(ops):,} operations is too long")
    core: list[tuple[int, PictureOperation]] = []
    batch: list[tuple[int, BatchOperation | BatchCallable]] = []
    normalize, normalize_position = None, len(ops)
    for position, op in enumerate(ops):
        if is_picture_op(op) and batch:
            raise UsageError(f"{op!r} works on single pictures: it must stand before {batch[0][1]!r}")
        if isinstance(op, Normalize):
            if normalize:
                raise UsageError("ops has more than one Normalize")
            normalize, normalize_position = op, position
        elif is_picture_op(op):
            core.append((position, op))
        elif is_batch_op(op):
            batch.append((position, op))
        else:
            raise UsageError(f"ops[{position}] is {op!r}; give an operation or a callable (images, labels)")
    _check_order(core, normalize_position)
    return OpSplit(tuple(core), normalize, normalize_position, tuple(batch))


def is_picture_op(op: object) -> TypeGuard[PictureOperation]:
    """True for operations on single pictures; what can be called is a batch's, whatever else it can."""
    return isinstance(op, PictureOperation) and not callable(op)


def is_batch_op(op: object) -> TypeGuard[BatchOperation | BatchCallable]:
    """True for MixUp, CutMix and their like, and for any callable that is no class."""
    return not isinstance(op, type) and (callable(op) or isinstance(op, BatchOperation))


def run_batch_ops(
    batch: Sequence[tuple[int, BatchOperation | BatchCallable]], images: Images, labels: Labels, context: BatchContext
) -> tuple[Images, Labels]:
    """Run the batch operations of a split in their order; what a callable raises passes through."""
    for position, op in batch:
        if not callable(op):
            images, labels = op.apply(images, labels, context, position)
            continue
        result: object = op(images, labels)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise UsageError(f"{op!r} must return (images, labels), not {type(result).__name__}")
        images, labels = result
    return images, labels


def _check_order(core: Sequence[tuple[int, PictureOperation]], normalize_position: int) -> None:
    reached = 0
    for position, op in core:
        stage = _STAGES.get(op.spec()[0], reached)
        if stage < reached:
            raise UsageError(f"{op!r} is {_STAGE_NAMES[stage]}: it must stand before {_STAGE_NAMES[reached]}")
        if position > normalize_position and _STAGES.get(op.spec()[0], _ERASING) != _ERASING:
            raise UsageError(f"{op!r} must stand before Normalize")
        reached = stage
