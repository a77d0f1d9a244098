"""MixUp and CutMix against torchvision's formulas, the distribution of their weights, and their exactness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta as beta_distribution
from scipy.stats import kstest

import trainload as tl
from trainload.images.ops.mixing import beta, cut_box
from trainload.images.ops.protocols import BatchContext
from trainload.running.philox import Draws

LABELS = np.array([2, 0, 1, 3, 3])
SHAPES = {"NHWC": (5, 12, 10, 3), "NHWC4": (5, 12, 10, 4), "NCHW": (5, 3, 12, 10)}


def _context(layout: str = "NHWC", first_id: int = 40, epoch: int = 1) -> BatchContext:
    return BatchContext(seed=9, epoch=epoch, ids=np.arange(first_id, first_id + 5), layout=layout)


def _images(layout: str, dtype: Any) -> NDArray[Any]:
    values = np.random.default_rng(1).uniform(0, 256, SHAPES[layout])
    return values.astype(dtype)


def _one_hot() -> NDArray[np.float32]:
    return np.eye(4, dtype=np.float32)[LABELS]


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_mixup_blends_each_picture_with_the_one_before(layout: str, dtype: Any, alpha: float) -> None:
    images, context = _images(layout, dtype), _context(layout)
    weight = beta(context.draws(6), alpha)
    exact = images.astype(np.float64) * weight + np.roll(images, 1, axis=0).astype(np.float64) * (1 - weight)
    mixed, labels = tl.MixUp(alpha, num_classes=4).apply(images, LABELS, context, 6)
    assert mixed is images and mixed.dtype == dtype
    tolerance = {np.uint8: 0.501, np.float32: 1e-4, np.float16: 0.3}[dtype]
    assert np.abs(mixed - exact).max() <= tolerance
    np.testing.assert_allclose(labels, _one_hot() * weight + np.roll(_one_hot(), 1, axis=0) * (1 - weight), atol=1e-6)
    assert labels.dtype == np.float32


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("first_id", range(8))
def test_cutmix_takes_a_box_of_the_picture_before(layout: str, first_id: int) -> None:
    images, context = _images(layout, np.uint8), _context(layout, first_id)
    left, top, right, bottom = cut_box(context.draws(0), 1.0, 12, 10)
    expected, before = images.copy(), np.roll(images, 1, axis=0)
    box = np.s_[..., top:bottom, left:right] if layout == "NCHW" else np.s_[:, top:bottom, left:right]
    expected[box] = before[box]
    mixed, labels = tl.CutMix(num_classes=4).apply(images, LABELS, context, 0)
    np.testing.assert_array_equal(mixed, expected)
    kept = 1 - (right - left) * (bottom - top) / 120
    np.testing.assert_allclose(labels, _one_hot() * kept + np.roll(_one_hot(), 1, axis=0) * (1 - kept), atol=1e-6)


@pytest.mark.parametrize("alpha", [0.1, 0.4, 1.0, 2.5, 20.0])
def test_weights_follow_the_beta_distribution(alpha: float) -> None:
    weights = [beta(Draws(3, 0, sample, 0), alpha) for sample in range(800)]
    assert kstest(weights, beta_distribution(alpha, alpha).cdf).pvalue > 0.001


def test_a_tiny_alpha_gives_weights_of_nearly_0_or_1() -> None:
    weights = np.array([beta(Draws(3, 0, sample, 0), 1e-4) for sample in range(100)])
    assert np.isfinite(weights).all() and (np.minimum(weights, 1 - weights) < 1e-3).mean() > 0.9


@pytest.mark.parametrize("op", [tl.MixUp(num_classes=4), tl.CutMix(num_classes=4)])
def test_a_batch_is_a_function_of_seed_epoch_and_ids_alone(op: tl.MixUp | tl.CutMix) -> None:
    def run(context: BatchContext, position: int = 2) -> bytes:
        images, labels = op.apply(_images("NHWC", np.float32), LABELS, context, position)
        return images.tobytes() + labels.tobytes()

    assert run(_context()) == run(_context())
    others = [run(_context(first_id=41)), run(_context(epoch=2)), run(_context(), position=3)]
    assert run(_context()) not in others and len(set(others)) == 3


@pytest.mark.parametrize("op", [tl.MixUp(), tl.CutMix()])
def test_labels_may_be_rows_of_weights_already(op: tl.MixUp | tl.CutMix) -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(7), 5).astype(np.float32)
    _, labels = op.apply(_images("NHWC", np.float32), rows, _context(), 0)
    np.testing.assert_allclose(labels.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("op", [tl.MixUp(num_classes=4), tl.CutMix(num_classes=4)])
def test_an_empty_batch_stays_empty(op: tl.MixUp | tl.CutMix) -> None:
    context = BatchContext(0, 0, np.empty(0, np.int64), "NHWC")
    images, labels = op.apply(np.empty((0, 4, 4, 3), np.float32), np.empty(0, np.int64), context, 0)
    assert images.shape == (0, 4, 4, 3) and labels.shape == (0, 4)


def test_labels_without_a_class_are_refused() -> None:
    for op in (tl.MixUp(), tl.MixUp(num_classes=3)):
        with pytest.raises(tl.UsageError, match="num_classes"):
            op.apply(_images("NHWC", np.float32), LABELS, _context(), 0)
