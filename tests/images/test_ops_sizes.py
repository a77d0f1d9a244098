"""Pad and RandomScale: against numpy.pad and Pillow, what they draw, and the size of what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import kstest

import trainload as tl
from loading_data import jpegs, write_folder
from ops_plan import Cut, Scale, plan_sample
from pillow_oracle import Pixels, columns_first, cut, noise_picture, smooth_picture
from trainload.images.decode import PictureDecoder
from trainload.images.ops.operations import PaddingMode, ResizeFilter
from trainload.images.ops.split import split_ops

MODES: list[PaddingMode] = ["constant", "edge", "reflect", "symmetric"]
PADDINGS = st.tuples(*[st.integers(0, 30)] * 4)


def made(chosen: Sequence[object], pixels: Pixels, sample: int = 0) -> NDArray[Any]:
    """The picture by a decoder of arrays of its shape."""
    decoder = PictureDecoder(chosen, array_shape=pixels.shape)  # type: ignore[arg-type]
    images = np.zeros((1, *decoder.shape), decoder.dtype)
    pictures = np.broadcast_to(pixels, (sample + 1, *pixels.shape)).copy()
    decoder.run_pixels(decoder.new_scratch(), pictures, np.array([sample], np.uint64), 7, 1, images)
    return images[0]


def by_numpy(pixels: Pixels, padding: tuple[int, int, int, int], mode: str, fill: tuple[int, int, int]) -> Pixels:
    left, top, right, bottom = padding
    pads = ((top, bottom), (left, right), (0, 0))
    if mode == "constant":
        planes = [np.pad(pixels[..., c], pads[:2], constant_values=fill[c]) for c in range(3)]
        return np.stack(planes, axis=-1)
    return np.pad(pixels, pads, mode=mode)  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", MODES)
@given(padding=PADDINGS, height=st.integers(1, 20), width=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_padding_is_numpys(mode: PaddingMode, padding: tuple[int, int, int, int], height: int, width: int) -> None:
    """Also where it mirrors a picture that is smaller than the padding."""
    pixels = noise_picture(height, width)
    found = made([tl.Pad(padding, (9, 99, 199), mode)], pixels)
    np.testing.assert_array_equal(found, by_numpy(pixels, padding, mode, (9, 99, 199)))


@pytest.mark.parametrize("mode", MODES)
def test_padding_stays_on_its_side_of_a_flipped_picture(mode: PaddingMode) -> None:
    pixels, pad = noise_picture(12, 15), tl.Pad((1, 2, 3, 4), (9, 99, 199), mode)
    for flip, turned in ((tl.RandomHorizontalFlip(1.0), pixels[:, ::-1]), (tl.RandomVerticalFlip(1.0), pixels[::-1])):
        before = by_numpy(np.ascontiguousarray(turned), (1, 2, 3, 4), mode, (9, 99, 199))
        np.testing.assert_array_equal(made([flip, pad], pixels), before)
        behind = by_numpy(pixels, (1, 2, 3, 4), mode, (9, 99, 199))
        axis = 1 if isinstance(flip, tl.RandomHorizontalFlip) else 0
        np.testing.assert_array_equal(made([pad, flip], pixels), np.flip(behind, axis))


def test_padding_and_a_crop_are_a_crop_with_padding() -> None:
    """CIFAR's classic: the same places, since a crop draws them by its position in the list."""
    pixels = noise_picture(32, 32)
    for sample in range(20):
        apart = made([tl.Pad(4), tl.RandomCrop(32)], pixels, sample)
        together = made([tl.RandomHorizontalFlip(0.0), tl.RandomCrop(32, padding=4)], pixels, sample)
        np.testing.assert_array_equal(apart, together)


def test_padding_twice_and_a_resize_see_the_padded_picture() -> None:
    pixels = smooth_picture(20, 30)
    padded = by_numpy(by_numpy(pixels, (2, 2, 2, 2), "reflect", (0, 0, 0)), (1, 0, 1, 0), "constant", (5, 6, 7))
    chosen = [tl.Pad(2, padding_mode="reflect"), tl.Pad((1, 0), (5, 6, 7)), tl.Resize((12, 13), "bicubic")]
    found = made(chosen, pixels)
    np.testing.assert_array_equal(found, columns_first(padded, (0, 0, 36, 24), 13, 12, "bicubic"))


@pytest.mark.parametrize(
    ("chosen", "picture", "size"),
    [
        ([tl.Resize((5, 6)), tl.Pad((1, 2, 3, 4))], None, (11, 10)),
        ([tl.RandomCrop(32), tl.Pad(2), tl.Pad(1), tl.RandomHorizontalFlip()], None, (38, 38)),
        ([tl.Pad(4)], None, None),
        ([tl.Pad(4)], (28, 32), (36, 40)),
        ([tl.RandomScale(), tl.CenterCrop(9)], None, (9, 9)),
        ([tl.CenterCrop(9), tl.RandomScale()], None, None),
        ([tl.CenterCrop(9), tl.RandomScale(), tl.Pad(2)], (28, 28), None),
        ([tl.RandomScale()], (28, 28), None),
        ([tl.Resize(14)], (28, 56), (14, 28)),
        ([tl.Resize(14)], None, None),
        ([], (28, 32), (28, 32)),
    ],
    ids=repr,
)
def test_the_output_size_is_known_where_no_picture_changes_it(
    chosen: list[object], picture: tuple[int, int] | None, size: tuple[int, int] | None
) -> None:
    assert split_ops(chosen).output_size(picture) == size


@pytest.mark.parametrize("shape", [None, (28, 28, 3)])
def test_a_list_that_ends_with_a_random_size_is_refused(shape: tuple[int, int, int] | None) -> None:
    with pytest.raises(tl.UsageError, match="many sizes"):
        PictureDecoder([tl.RandomScale()], array_shape=shape)


def test_both_stand_among_the_crops() -> None:
    for op in (tl.Pad(1), tl.RandomScale()):
        with pytest.raises(tl.UsageError, match="must stand before an operation on pixels"):
            split_ops([tl.RandomGrayscale(), op])


def test_random_scale_draws_one_factor_uniformly_for_both_sides() -> None:
    factors = []
    for sample in range(1500):
        op = (3, tl.RandomScale((0.5, 1.75)))
        (step,) = plan_sample([op], width=10_000, height=20_000, seed=1, epoch=0, sample=sample)
        assert isinstance(step, Scale)
        assert (step.left, step.top, step.width, step.height) == (0, 0, 10_000, 20_000)
        assert step.to_height - 2 * step.to_width in (0, 1)
        factors.append(step.to_height / 20_000)
    assert kstest((np.array(factors) - 0.5) / 1.25, "uniform").pvalue > 0.001


def test_random_scale_leaves_a_pixel_of_the_smallest_picture() -> None:
    (step,) = plan_sample([(0, tl.RandomScale((0.1, 0.2)))], width=3, height=40, seed=0, epoch=0, sample=0)
    assert isinstance(step, Scale) and step.to_width == 1 and 4 <= step.to_height < 8
    assert made([tl.RandomScale((0.1, 0.2)), tl.CenterCrop(4)], noise_picture(40, 3)).shape == (4, 4, 3)


def test_each_side_has_a_factor_of_its_own_where_that_is_asked_for() -> None:
    factors = []
    for sample in range(1500):
        op = (3, tl.RandomScale((0.5, 1.75), each_side=True))
        (step,) = plan_sample([op], width=10_000, height=20_000, seed=1, epoch=0, sample=sample)
        assert isinstance(step, Scale)
        factors.append([step.to_width / 10_000, step.to_height / 20_000])
    for one in np.transpose(factors):
        assert kstest((one - 0.5) / 1.25, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(np.transpose(factors))[0, 1]) < 0.1


@pytest.mark.parametrize("each_side", [False, True])
@pytest.mark.parametrize("name", ["bilinear", "bicubic", "lanczos", "box", "nearest"])
def test_random_scale_and_a_crop_are_their_plan(name: ResizeFilter, each_side: bool) -> None:
    pixels = smooth_picture(45, 61)
    chosen = [
        tl.RandomScale((0.4, 1.5), name, each_side=each_side),
        tl.RandomCrop(40, pad_if_needed=True, padding_mode="edge"),
    ]
    for sample in range(25):
        expected = pixels
        for step in plan_sample(split_ops(chosen).core, width=61, height=45, seed=7, epoch=1, sample=sample):
            if isinstance(step, Scale):
                box = (step.left, step.top, step.width, step.height)
                expected = columns_first(expected, box, step.to_width, step.to_height, step.interpolation)
            else:
                assert isinstance(step, Cut)
                expected = cut(step, expected)
        np.testing.assert_array_equal(made(chosen, pixels, sample), expected)


def test_sides_beyond_the_limit_are_the_pictures_fault_not_a_crash() -> None:
    for chosen in ([tl.RandomScale((9000.0, 9000.0)), tl.CenterCrop(4)], [tl.Pad(65535), tl.CenterCrop(4)]):
        with pytest.raises(ValueError, match="out of range"):
            made(chosen, noise_picture(9, 9))


def test_the_new_operations_together_give_the_same_bits_for_any_threads(tmp_path: Any) -> None:
    ops = [
        tl.RandomScale((0.7, 1.3), "bicubic"),
        tl.Pad(3, padding_mode="reflect"),
        tl.RandomResizedCrop(24, interpolation="lanczos"),
        tl.RandomHorizontalFlip(),
        tl.RandomAutocontrast(),
        tl.GaussianNoise(),
        tl.RandomVerticalFlip(),
        tl.Normalize.mlperf(),
    ]
    folder = write_folder(tmp_path, jpegs(23), [0] * 23)

    def bits(workers: int) -> list[bytes]:
        with tl.open_images(folder) as ds, tl.ImageLoader(ds, batch_size=5, ops=ops, seed=3, workers=workers) as loader:
            return [images.tobytes() for images, _ in loader]

    assert bits(1) == bits(4) and len(set(bits(1))) == 5


@given(st.tuples(st.integers(1, 900), st.integers(1, 900)), st.integers(1, 300), st.integers(0, 300), PADDINGS)
def test_the_size_that_is_told_is_that_of_the_plan(
    size: tuple[int, int], shorter: int, more: int, padding: tuple[int, int, int, int]
) -> None:
    chosen = split_ops([tl.Resize(shorter, max_size=shorter + more if more else None), tl.Pad(padding)])
    scale, pad = plan_sample(chosen.core, width=size[1], height=size[0], seed=0, epoch=0, sample=0)
    assert isinstance(scale, Scale) and isinstance(pad, Cut)
    assert chosen.output_size(size) == (pad.height, pad.width)
