"""Random parameters: their distributions on fixed seeds, and plans carried out with Pillow equal to what the core does.

Chi-square limits are the 0.999 quantiles: the seeds are fixed, so a test passes always or never.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest

import trainload as tl
from core_testing import core_testing
from ops_plan import Change, Cut, Erase, Flip, Scale, Step, magnitude_of, plan_sample
from pillow_oracle import PICTURE_NAMES, PICTURES, Pixels, carry_out, smooth_picture
from trainload import UsageError, _core
from trainload.images.ops import operations as ops
from trainload.images.ops.split import split_ops

SAMPLES = 1500


def _steps(op: tl.PictureOperation, width: int = 500, height: int = 375, samples: int = SAMPLES) -> list[list[Step]]:
    return [
        plan_sample([(3, op)], width=width, height=height, seed=11, epoch=2, sample=sample) for sample in range(samples)
    ]


def _assert_uniform(values: Sequence[float], low: float, high: float) -> None:
    assert kstest((np.array(values) - low) / (high - low), "uniform").pvalue > 0.001


def _assert_frequencies(counts: Sequence[int], parts: Sequence[float]) -> None:
    expected = np.array(parts) * sum(counts)
    assert float(((np.array(counts) - expected) ** 2 / expected).sum()) < chi2.ppf(0.999, len(parts) - 1)


def test_random_resized_crop_draws_area_and_log_ratio_uniformly() -> None:
    steps = _steps(ops.RandomResizedCrop(224, scale=(0.08, 0.4)))
    boxes = [step for (step,) in steps if isinstance(step, Scale)]
    assert len(boxes) == SAMPLES
    _assert_uniform([box.width * box.height / (500 * 375) for box in boxes], 0.08, 0.4)
    _assert_uniform([math.log(box.width / box.height) for box in boxes], math.log(3 / 4), math.log(4 / 3))
    _assert_uniform([(box.left + 0.5) / (500 - box.width + 1) for box in boxes], 0.0, 1.0)
    _assert_uniform([(box.top + 0.5) / (375 - box.height + 1) for box in boxes], 0.0, 1.0)


def test_random_resized_crop_falls_back_to_the_centre_of_a_narrow_picture() -> None:
    for (step,) in _steps(ops.RandomResizedCrop(32, scale=(1.0, 1.0)), width=10, height=400, samples=20):
        assert step == Scale(left=0, top=193, width=10, height=13, to_width=32, to_height=32)


def test_random_crop_starts_anywhere_in_the_padded_picture() -> None:
    cuts = [step for (step,) in _steps(ops.RandomCrop(32, padding=4), 32, 32) if isinstance(step, Cut)]
    _assert_frequencies([Counter(cut.left for cut in cuts)[x] for x in range(-4, 5)], [1 / 9] * 9)
    _assert_frequencies([Counter(cut.top for cut in cuts)[y] for y in range(-4, 5)], [1 / 9] * 9)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(
    "kind", [ops.RandomHorizontalFlip, ops.RandomVerticalFlip, ops.RandomGrayscale, ops.RandomErasing]
)
def test_operations_happen_with_their_probability(kind: type[ops.RandomHorizontalFlip], p: float) -> None:
    happened = sum(bool(steps) for steps in _steps(kind(p)))
    _assert_frequencies([happened, SAMPLES - happened], [p, 1 - p])


def test_color_jitter_draws_factors_uniformly_and_every_order_equally_often() -> None:
    steps = _steps(ops.ColorJitter(0.4, (0.2, 0.9), 0.3, 0.25))
    changes = [change for change in steps if all(isinstance(step, Change) for step in change)]
    orders = Counter(tuple(step.name for step in change) for change in changes)  # type: ignore[union-attr]
    assert len(orders) == 24
    _assert_frequencies(list(orders.values()), [1 / 24] * 24)
    amounts = {step.name: step.amount for change in changes for step in change}  # type: ignore[union-attr]
    assert set(amounts) == {"Brightness", "Contrast", "Saturation", "Hue"}
    ranges = {"Brightness": (0.6, 1.4), "Contrast": (0.2, 0.9), "Saturation": (0.7, 1.3), "Hue": (-0.25, 0.25)}
    for name, (low, high) in ranges.items():
        drawn = [s.amount for change in changes for s in change if isinstance(s, Change) and s.name == name]
        _assert_uniform(drawn, low, high)


def test_blur_and_rotation_draw_uniformly() -> None:
    sigmas = [step.amount for (step,) in _steps(ops.GaussianBlur(5)) if isinstance(step, Change)]
    _assert_uniform(sigmas, 0.1, 2.0)
    degrees = [step.amount for (step,) in _steps(ops.RandomRotation(30)) if isinstance(step, Change)]
    _assert_uniform(degrees, -30, 30)


def test_random_erasing_draws_area_uniformly_and_stays_inside() -> None:
    op = ops.RandomErasing(p=1.0, scale=(0.05, 0.2), ratio=(0.5, 2.0))
    boxes = [step for (step,) in _steps(op) if isinstance(step, Erase)]
    assert len(boxes) == SAMPLES
    _assert_uniform([box.width * box.height / (500 * 375) for box in boxes], 0.05, 0.2)
    _assert_uniform([math.log(box.height / box.width) for box in boxes], math.log(0.5), math.log(2.0))
    assert all(box.left + box.width <= 500 and box.top + box.height <= 375 for box in boxes)


def test_rand_augment_draws_each_of_14_equally_often_and_half_of_the_signs_negative() -> None:
    changes = [step for steps in _steps(ops.RandAugment()) for step in steps if isinstance(step, Change)]
    counts = Counter(change.name for change in changes)
    assert len(counts) == 14
    _assert_frequencies(list(counts.values()), [1 / 14] * 14)
    signed = [change.amount < 0 for change in changes if change.name == "augment.Rotate"]
    _assert_frequencies([sum(signed), len(signed) - sum(signed)], [0.5, 0.5])


def test_auto_augment_applies_each_step_with_the_tables_probability() -> None:
    policy = core_testing.learned_policy(0)
    expected = sum(probability for pair in policy for _, probability, _ in pair) / 25
    applied = sum(len(steps) for steps in _steps(ops.AutoAugment()))
    assert abs(applied / SAMPLES - expected) < 0.05


@pytest.mark.parametrize("bins", [2, 9, 10, 31])
def test_magnitudes_of_the_core_equal_the_plans(bins: int) -> None:
    for name in {step[0] for policy in range(3) for pair in core_testing.learned_policy(policy) for step in pair}:
        for bin_ in range(bins):
            core = core_testing.augmentation_magnitude(name, bin_, bins, 224, 180)
            assert core == pytest.approx(magnitude_of(name, bin_, bins, 224, 180), abs=1e-12)


PIXEL_LISTS: list[list[tl.PictureOperation]] = [
    [ops.ColorJitter(0.4, 0.4, 0.4, 0.1), ops.RandomGrayscale(0.3)],
    [ops.RandAugment(3, 12)],
    [ops.RandAugment(1, 30)],
    [ops.AutoAugment("imagenet")],
    [ops.AutoAugment("cifar10")],
    [ops.AutoAugment("svhn")],
    [ops.RandomRotation(45), ops.RandomHorizontalFlip(), ops.RandomVerticalFlip(), ops.RandomRotation(10)],
]


@pytest.mark.parametrize("pixels", PICTURES, ids=PICTURE_NAMES)
@pytest.mark.parametrize("op_list", PIXEL_LISTS, ids=repr)
def test_a_plan_carried_out_with_pillow_equals_the_core(pixels: Pixels, op_list: list[tl.PictureOperation]) -> None:
    height, width = pixels.shape[:2]
    numbered = list(enumerate(op_list))
    for sample in range(12):
        plan = plan_sample(numbered, width=width, height=height, seed=1 << 63, epoch=5, sample=sample)
        got = pixels.copy()
        for position, op in numbered:
            kind, parameters = op.spec()
            core_testing.apply_pixel_op(got, kind, position, parameters, 1 << 63, 5, sample)
        np.testing.assert_array_equal(got, carry_out(plan, pixels))


def _pipeline(op_list: Sequence[object], pixels: Pixels, sample: int) -> Pixels:
    split = split_ops(op_list)
    size = split.output_size() or pixels.shape[:2]
    pipeline = _core.Pipeline(split.specs("uint8"), size[1], size[0], "uint8", "NHWC", [], [], "off")
    out = np.empty((1, *size, 3), np.uint8)
    rows, ids = np.zeros(1, np.uint64), np.array([sample], np.uint64)
    pipeline.run_pixels(_core.Scratch(), pixels[None], rows, ids, 7, 1, out)
    return out[0]


def _planned(op_list: Sequence[object], pixels: Pixels, sample: int) -> Pixels:
    height, width = pixels.shape[:2]
    core = split_ops(op_list).core
    return carry_out(plan_sample(core, width=width, height=height, seed=7, epoch=1, sample=sample), pixels)


WHOLE_LISTS: list[list[tl.PictureOperation]] = [
    [ops.CenterCrop((37, 90))],
    [ops.RandomCrop(32, padding=4), ops.RandomHorizontalFlip(), ops.RandomErasing(1.0, value=(1, 2, 3))],
    [ops.RandomCrop(70, pad_if_needed=True, padding_mode="reflect"), ops.RandomVerticalFlip(), ops.AutoAugment("svhn")],
    [ops.RandomCrop((30, 20)), ops.RandomRotation(20), ops.RandomHorizontalFlip(), ops.RandAugment()],
    [ops.RandomCrop(32, (3, 5), fill=(7, 8, 9)), ops.ColorJitter(0.4, 0.4, 0.4, 0.1), ops.RandomGrayscale()],
    [ops.RandomHorizontalFlip(), ops.RandomErasing(0.7), ops.RandomVerticalFlip()],
]


@pytest.mark.parametrize("pixels", PICTURES, ids=PICTURE_NAMES)
@pytest.mark.parametrize("op_list", WHOLE_LISTS, ids=repr)
def test_the_pipeline_equals_the_plan_bit_for_bit(pixels: Pixels, op_list: list[tl.PictureOperation]) -> None:
    for sample in range(12):
        np.testing.assert_array_equal(_pipeline(op_list, pixels, sample), _planned(op_list, pixels, sample))


@given(st.integers(0, 10_000), st.integers(20, 60), st.integers(20, 60))
@settings(max_examples=40)
def test_the_pipeline_resizes_the_box_of_the_plan(sample: int, height: int, width: int) -> None:
    """As Pillow's resize with box: within 2 of 255 at any pixel."""
    op_list = [ops.RandomResizedCrop((24, 28)), ops.RandomHorizontalFlip(), ops.RandomVerticalFlip()]
    pixels = smooth_picture(height, width)
    difference = _pipeline(op_list, pixels, sample).astype(int) - _planned(op_list, pixels, sample)
    assert np.abs(difference).max() <= 2


def test_flips_are_planned_by_their_own_position_in_the_list() -> None:
    flips = [(0, ops.RandomHorizontalFlip()), (1, ops.RandomHorizontalFlip())]
    plans = [plan_sample(flips, width=9, height=9, seed=0, epoch=0, sample=sample) for sample in range(200)]
    assert {len(plan) for plan in plans} == {0, 1, 2}
    assert all(isinstance(step, Flip) and step.is_horizontal for plan in plans for step in plan)


def test_a_crop_larger_than_its_picture_is_refused() -> None:
    with pytest.raises(UsageError, match="32x32 from a picture of 10x40"):
        plan_sample([(0, ops.RandomCrop(32))], width=10, height=40, seed=0, epoch=0, sample=0)
