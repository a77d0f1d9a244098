"""Crops, resizes and flips in any order are what the list says, one operation after the other on whole pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from core_testing import core_testing
from ops_plan import Cut, Flip, Scale, Step, plan_sample
from pillow_oracle import Pixels, cut, noise_picture
from trainload import UsageError, _core
from trainload.images.ops import operations as ops
from trainload.images.ops.split import split_ops

SIDES = st.integers(3, 40)
SIZES = st.tuples(SIDES, SIDES)
MODES = st.sampled_from(["constant", "edge", "reflect", "symmetric"])
PADDINGS = st.tuples(*[st.integers(0, 9)] * 4)
FIXED = st.one_of(
    st.builds(ops.RandomResizedCrop, SIZES, st.sampled_from([(0.08, 1.0), (0.9, 1.0)])),
    st.builds(ops.CenterCrop, SIZES),
    st.builds(ops.Resize, SIZES),
    st.builds(ops.RandomCrop, SIZES, PADDINGS, st.just(True), st.just((9, 99, 199)), MODES),
)
FLIPS = st.one_of(
    st.builds(ops.RandomHorizontalFlip, st.sampled_from([0.5, 1.0])),
    st.builds(ops.RandomVerticalFlip, st.sampled_from([0.5, 1.0])),
)
FREE = st.one_of(
    st.builds(ops.Resize, st.integers(3, 30)),
    st.builds(ops.RandomScale, st.sampled_from([(0.5, 2.0), (0.1, 0.4)])),
    st.builds(ops.Pad, PADDINGS, st.just((9, 99, 199)), MODES),
)
LISTS = st.tuples(st.lists(st.one_of(FLIPS, FLIPS, FIXED, FREE), max_size=4), FIXED, st.lists(FLIPS, max_size=1))


def one_after_the_other(steps: Sequence[Step], pixels: Pixels) -> Pixels:
    for step in steps:
        if isinstance(step, Scale):
            box = (step.left, step.top, step.width, step.height)
            size = step.to_width, step.to_height
            pixels = core_testing.resample(np.ascontiguousarray(pixels), box, *size, filter=step.interpolation)
        elif isinstance(step, Flip):
            pixels = pixels[:, ::-1] if step.is_horizontal else pixels[::-1]
        else:
            assert isinstance(step, Cut)
            pixels = cut(step, pixels)
    return pixels


def by_the_core(chosen: Sequence[tl.PictureOperation], pixels: Pixels, samples: int) -> Pixels:
    split = split_ops(chosen)
    size = split.output_size()
    assert size is not None
    pipeline = _core.Pipeline(split.specs("uint8"), size[1], size[0], "uint8", "NHWC", [], [], "off")
    out = np.empty((samples, *size, 3), np.uint8)
    rows, ids = np.zeros(samples, np.uint64), np.arange(samples, dtype=np.uint64)
    pipeline.run_pixels(_core.Scratch(), pixels[None], rows, ids, 7, 1, out)
    return out


def planned(chosen: Sequence[tl.PictureOperation], pixels: Pixels, sample: int) -> list[Step]:
    height, width = pixels.shape[:2]
    return plan_sample(split_ops(chosen).core, width=width, height=height, seed=7, epoch=1, sample=sample)


def is_resized_after_a_flip(steps: Sequence[Step]) -> bool:
    """Weights of a filter are rounded: mirrored, a pixel may differ by one."""
    flips = [n for n, step in enumerate(steps) if isinstance(step, Flip)]
    return any(isinstance(step, Scale) for step in steps[flips[0] if flips else len(steps) :])


@settings(max_examples=200, deadline=None)
@given(SIZES, LISTS)
def test_any_list_is_one_operation_after_the_other(size: tuple[int, int], parts: tuple[list, object, list]) -> None:
    chosen = [*parts[0], parts[1], *parts[2]]
    pixels = noise_picture(*size)
    try:
        plans = [planned(chosen, pixels, sample) for sample in range(4)]
        expected = [one_after_the_other(steps, pixels) for steps in plans]
    except UsageError:
        return
    for steps, wanted, found in zip(plans, expected, by_the_core(chosen, pixels, 4), strict=True):
        difference = np.abs(found.astype(int) - wanted)
        assert difference.max() <= 2 * is_resized_after_a_flip(steps), steps


@pytest.mark.parametrize("horizontal, far, early", list(product([True, False], repeat=3)))
def test_padding_stays_on_its_side_whatever_is_flipped_before(horizontal: bool, far: bool, early: bool) -> None:
    """A flip before the crop leaves the padding where the user wrote it; one behind it takes it along."""
    padding = [0, 0, 0, 0]
    padding[2 * far + (not horizontal)] = 8
    flip = ops.RandomHorizontalFlip(1.0) if horizontal else ops.RandomVerticalFlip(1.0)
    crop = ops.RandomCrop((16, 24) if horizontal else (24, 16), padding=padding)
    made = by_the_core([flip, crop] if early else [crop, flip], np.full((16, 16, 3), 200, np.uint8), 50)
    line = made[:, 8, :, 0] if horizontal else made[:, :, 8, 0]
    black_at_the_end = far if early else not far
    assert (line[:, -1 if black_at_the_end else 0] == 0).all()
    assert (line[:, 0 if black_at_the_end else -1] == 200).all()


@pytest.mark.parametrize("odd", [ops.CenterCrop(8), ops.CenterCrop(18), ops.CenterCrop((8, 20))], ids=repr)
def test_the_middle_of_a_flipped_picture_is_its_own(odd: ops.CenterCrop) -> None:
    pixels = noise_picture(15, 15)
    for flips in ([ops.RandomHorizontalFlip(1.0)], [ops.RandomVerticalFlip(1.0)]):
        turned = np.ascontiguousarray(
            pixels[:, ::-1] if isinstance(flips[0], ops.RandomHorizontalFlip) else pixels[::-1]
        )
        assert np.array_equal(by_the_core([*flips, odd], pixels, 1), by_the_core([odd], turned, 1))


def test_a_box_of_a_narrow_picture_has_its_half_pixel_on_the_side_of_the_flipped_picture() -> None:
    pixels = noise_picture(101, 8)
    crop = ops.RandomResizedCrop((10, 8), scale=(1.0, 1.0), ratio=(0.8, 0.8))  # no box fits: the middle
    turned = np.ascontiguousarray(pixels[::-1])
    difference = by_the_core([ops.RandomVerticalFlip(1.0), crop], pixels, 1).astype(int) - by_the_core(
        [crop], turned, 1
    )
    assert np.abs(difference).max() <= 1


def test_where_both_ends_are_alike_a_flip_before_a_crop_gives_what_a_flip_behind_it_gives() -> None:
    """The bits of lists that people have: the place of their flip never mattered."""
    pixels = noise_picture(40, 50)
    for crop in (ops.RandomResizedCrop(16), ops.RandomCrop(32, padding=4), ops.CenterCrop((20, 30)), ops.Resize(24)):
        never, always = ([ops.RandomHorizontalFlip(p), crop, ops.CenterCrop(16)] for p in (0.0, 1.0))
        assert np.array_equal(by_the_core(always, pixels, 20), by_the_core(never, pixels, 20)[:, :, ::-1])
