"""A list of operations is cut in what runs per picture and per batch; lists the core cannot run are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import trainload as tl
from trainload.images.ops.protocols import BatchContext
from trainload.images.ops.split import is_batch_op, run_batch_ops, split_ops

CROP, FLIP, JITTER = tl.RandomResizedCrop(8), tl.RandomHorizontalFlip(), tl.ColorJitter(0.4)
NORMALIZE = tl.Normalize((0.5, 0.25, 0.125), (0.5, 0.25, 2.0))


def _double(images: Any, labels: Any) -> tuple[Any, Any]:
    return images * 2, labels


def test_positions_in_the_list_are_kept() -> None:
    split = split_ops([CROP, FLIP, NORMALIZE, tl.RandomErasing(), tl.MixUp(), _double])
    assert [position for position, _ in split.core] == [0, 1, 3]
    assert split.normalize == NORMALIZE
    assert [position for position, _ in split.batch] == [4, 5]
    assert split.output_size() == (8, 8)
    assert [(kind, position) for kind, position, _ in split.specs("float32")] == [
        ("random_resized_crop", 0),
        ("horizontal_flip", 1),
        ("random_erasing", 3),
    ]


def test_an_empty_list_changes_nothing() -> None:
    split = split_ops([])
    assert (split.core, split.batch, split.normalize, split.output_size()) == ((), (), None, None)
    assert (split.mean, split.std) == ([0.0] * 3, [1.0] * 3)


@pytest.mark.parametrize(
    ("ops", "size"),
    [
        ([tl.Resize(256)], None),
        ([tl.Resize((5, 6))], (5, 6)),
        ([tl.Resize(256), tl.CenterCrop((7, 9))], (7, 9)),
        ([tl.CenterCrop(9), tl.Resize(5)], None),
        ([tl.RandomCrop((3, 4)), FLIP, JITTER], (3, 4)),
    ],
)
def test_the_output_size_is_that_of_the_last_crop(ops: list[object], size: tuple[int, int] | None) -> None:
    assert split_ops(ops).output_size() == size


@pytest.mark.parametrize(
    "ops",
    [
        [JITTER, CROP],
        [tl.RandomErasing(), JITTER],
        [NORMALIZE, JITTER],
        [NORMALIZE, CROP],
        [NORMALIZE, NORMALIZE],
        [tl.MixUp(), FLIP],
        [_double, NORMALIZE],
        [tl.RandomHorizontalFlip],
        ["flip"],
        [None],
    ],
    ids=range(10),
)
def test_lists_that_cannot_run_are_refused(ops: list[object]) -> None:
    with pytest.raises(tl.UsageError):
        split_ops(ops)


def test_flips_may_stand_anywhere_before_the_batch() -> None:
    split = split_ops([FLIP, CROP, FLIP, JITTER, FLIP, NORMALIZE, FLIP, tl.RandomErasing(), FLIP, _double])
    assert [position for position, _ in split.core] == [0, 1, 2, 3, 4, 6, 7, 8]


def test_callables_are_batch_operations_and_operations_are_not() -> None:
    assert is_batch_op(_double) and is_batch_op(tl.MixUp()) and is_batch_op(lambda images, labels: (images, labels))
    assert not any(is_batch_op(op) for op in (CROP, NORMALIZE, tl.RandomErasing, "flip"))


def _erasing_value(ops: list[object], out: Any) -> list[float]:
    return split_ops(ops).specs(out)[0][2][6:9]


def test_erasing_values_are_brought_to_the_units_of_the_output() -> None:
    erasing = tl.RandomErasing(value=(0.0, 1.0, 51.0))
    assert _erasing_value([erasing], "uint8") == [0.0, 1.0, 51.0]
    assert _erasing_value([erasing], "float32") == pytest.approx([0.0, 1 / 255, 0.2])
    assert _erasing_value([NORMALIZE, erasing], "float32") == [0.0, 1.0, 51.0]
    normalized = [(0 / 255 - 0.5) / 0.5, (1 / 255 - 0.25) / 0.25, (0.2 - 0.125) / 2.0]
    assert _erasing_value([erasing, NORMALIZE], "float32") == pytest.approx(normalized)
    assert _erasing_value([NORMALIZE, tl.RandomErasing(value=0.0)], "uint8") == [128.0, 64.0, 32.0]


def test_normal_numbers_need_a_float_output() -> None:
    noise = tl.RandomErasing(value="random")
    assert split_ops([NORMALIZE, noise]).specs("float32")
    assert split_ops([noise]).specs("float16")
    for ops, out in (([noise], "uint8"), ([noise, NORMALIZE], "float32")):
        with pytest.raises(tl.UsageError, match="normal numbers"):
            split_ops(ops).specs(out)  # type: ignore[arg-type]


def test_one_mean_stands_for_three_channels() -> None:
    split = split_ops([tl.Normalize.mnist()])
    assert (split.mean, split.std) == ([0.1307] * 3, [0.3081] * 3)


def test_batch_operations_run_in_order_and_must_return_a_pair() -> None:
    context = BatchContext(seed=0, epoch=0, ids=np.arange(3), layout="NHWC")
    images, labels = np.ones((3, 2, 2, 3), np.float32), np.arange(3)

    def shift(images: Any, labels: Any) -> tuple[Any, Any]:
        return images + 1, labels + 10

    got_images, got_labels = run_batch_ops(split_ops([_double, shift]).batch, images, labels, context)
    assert (got_images == 3).all() and list(got_labels) == [10, 11, 12]
    with pytest.raises(tl.UsageError, match="must return"):
        run_batch_ops(split_ops([lambda images, labels: images]).batch, images, labels, context)


def test_what_a_callable_raises_passes_through() -> None:
    def fail(images: Any, labels: Any) -> tuple[Any, Any]:
        raise KeyError("mine")

    context = BatchContext(seed=0, epoch=0, ids=np.arange(3), layout="NHWC")
    with pytest.raises(KeyError, match="mine"):
        run_batch_ops(split_ops([fail]).batch, np.ones((1, 1, 1, 3)), np.zeros(1), context)


@dataclass(frozen=True)
class _SquareCrop:
    """An operation of a user's own, made of what the core knows."""

    side: int

    def spec(self) -> tuple[str, list[float]]:
        return "center_crop", [self.side, self.side]


class _Darken:
    def apply(self, images: Any, labels: Any, context: BatchContext, operation: int) -> tuple[Any, Any]:
        return images - operation - context.epoch, labels


class _Module:
    """Like a torch module: it can be called, and `apply` means something else."""

    def __call__(self, images: Any, labels: Any) -> tuple[Any, Any]:
        return images + 1, labels

    def apply(self, function: Any) -> None:
        raise AssertionError("a callable is called")


def test_an_operation_of_ones_own_runs_as_what_its_spec_says() -> None:
    split = split_ops([_SquareCrop(6), NORMALIZE, _Darken(), _Module()])
    assert split.output_size() == (6, 6)
    assert split.specs("float32") == [("center_crop", 0, [6.0, 6.0])]
    context = BatchContext(0, 3, np.arange(1), "NHWC")
    images, _ = run_batch_ops(split.batch, np.full((1, 2, 2, 3), 10), np.zeros(1), context)
    assert (images == 10 - 2 - 3 + 1).all()
