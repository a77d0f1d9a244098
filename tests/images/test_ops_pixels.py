"""Every pixel operation of the core against Pillow, bit for bit; the blur against a float64 formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from PIL import Image

import trainload as tl
from core_testing import core_testing
from ops_plan import plan_sample
from pillow_oracle import FILTERS, JITTERS, PICTURE_NAMES, PICTURES, Pixels, augment, turn_hue
from trainload.images.ops import operations as ops

SMALL_PICTURES = arrays.arrays(
    np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)), elements=st.integers(0, 255)
)
FACTORS = (0.0, 0.3, 0.77, 1.4, 3.0)
SHIFTS = (-0.5, -0.21, 0.001, 0.1, 0.37, 0.5)
JITTER_CASES = [(name, x) for name in JITTERS for x in (SHIFTS if name == "Hue" else FACTORS)]
AUGMENTATIONS = [
    ("Identity", 0.0),
    ("ShearX", 0.17),
    ("ShearY", -0.3),
    ("TranslateX", 3.7),
    ("TranslateY", -2.9),
    ("Rotate", -21.0),
    ("Brightness", 0.27),
    ("Color", -0.9),
    ("Contrast", 0.9),
    ("Sharpness", 0.63),
    ("Sharpness", -0.6),
    ("Posterize", 5.0),
    ("Solarize", 0.7),
    ("AutoContrast", 0.0),
    ("Equalize", 0.0),
    ("Invert", 0.0),
]
every_picture = pytest.mark.parametrize("pixels", PICTURES, ids=PICTURE_NAMES)


def _run(op: tl.PictureOperation, pixels: Pixels, sample: int = 0) -> Pixels:
    kind, parameters = op.spec()
    result = pixels.copy()
    core_testing.apply_pixel_op(result, kind, 0, parameters, 0, 0, sample)
    return result


def _augment(
    pixels: Pixels, name: str, magnitude: float, bilinear: bool = False, fill: tuple[int, int, int] = (0, 0, 0)
) -> Pixels:
    result = pixels.copy()
    core_testing.augment(result, name, magnitude, bilinear, fill)
    return result


@every_picture
@pytest.mark.parametrize(("name", "amount"), JITTER_CASES)
def test_color_jitter_equals_pillow(pixels: Pixels, name: str, amount: float) -> None:
    op = ops.ColorJitter(**{name.lower(): (amount, amount)})
    np.testing.assert_array_equal(_run(op, pixels), np.asarray(JITTERS[name](Image.fromarray(pixels), amount)))


def test_hue_equals_pillow_for_every_third_colour() -> None:
    values = np.arange(0, 256, 3, dtype=np.uint8)
    cube = np.stack(np.meshgrid(values, values, values, indexing="ij"), axis=-1).reshape(86, -1, 3)
    got = _run(ops.ColorJitter(hue=(0.13, 0.13)), cube)
    np.testing.assert_array_equal(got, np.asarray(turn_hue(Image.fromarray(cube), 0.13)))


@every_picture
def test_grayscale_equals_pillow_and_p_0_changes_nothing(pixels: Pixels) -> None:
    gray = np.asarray(Image.fromarray(pixels).convert("L").convert("RGB"))
    np.testing.assert_array_equal(_run(ops.RandomGrayscale(p=1.0), pixels), gray)
    np.testing.assert_array_equal(_run(ops.RandomGrayscale(p=0.0), pixels), pixels)


@every_picture
@pytest.mark.parametrize(("name", "magnitude"), AUGMENTATIONS)
def test_each_augmentation_equals_pillow(pixels: Pixels, name: str, magnitude: float) -> None:
    expected = augment(Image.fromarray(pixels), name, magnitude)
    np.testing.assert_array_equal(_augment(pixels, name, magnitude), np.asarray(expected))


@given(SMALL_PICTURES)
@settings(max_examples=50)
def test_all_augmentations_equal_pillow_on_any_picture(pixels: Pixels) -> None:
    for name, magnitude in AUGMENTATIONS:
        expected = np.asarray(augment(Image.fromarray(pixels), name, magnitude))
        np.testing.assert_array_equal(_augment(pixels, name, magnitude), expected, err_msg=name)


@every_picture
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("degrees", [0.0, 13.7, 45.0, 90.0, -90.0, 180.0, 271.0, -333.25])
@pytest.mark.parametrize("center", [None, (10.0, 20.5)])
def test_rotation_equals_pillow(
    pixels: Pixels, degrees: float, interpolation: ops.Interpolation, center: tuple[float, float] | None
) -> None:
    fill = (9, 99, 199)
    got = _run(ops.RandomRotation((degrees, degrees), interpolation, center=center, fill=fill), pixels)
    pillow = Image.fromarray(pixels).rotate(degrees, FILTERS[interpolation], center=center, fillcolor=fill)
    np.testing.assert_array_equal(got, np.asarray(pillow))


@every_picture
@pytest.mark.parametrize("name", ["ShearX", "ShearY", "TranslateX", "Rotate"])
@pytest.mark.parametrize("magnitude", [0.11, -0.3])
def test_bilinear_augmentations_equal_pillow(pixels: Pixels, name: str, magnitude: float) -> None:
    expected = augment(Image.fromarray(pixels), name, magnitude, "bilinear", (1, 2, 3))
    np.testing.assert_array_equal(_augment(pixels, name, magnitude, True, (1, 2, 3)), np.asarray(expected))


@given(SMALL_PICTURES, st.integers(0, 2**64 - 1), st.sampled_from(["nearest", "bilinear"]))
@settings(max_examples=60)
def test_pictures_of_any_size_are_turned_as_pillow_does(
    pixels: Pixels, sample: int, interpolation: ops.Interpolation
) -> None:
    degrees = plan_sample(
        [(0, ops.RandomRotation(180))], width=pixels.shape[1], height=pixels.shape[0], seed=0, epoch=0, sample=sample
    )[0].amount  # type: ignore[union-attr]
    got = _run(ops.RandomRotation(180, interpolation), pixels, sample)
    expected = Image.fromarray(pixels).rotate(degrees, FILTERS[interpolation], fillcolor=(0, 0, 0))
    np.testing.assert_array_equal(got, np.asarray(expected))


def _blur_formula(pixels: Pixels, kernel: tuple[int, int], sigma: float) -> NDArray[np.float64]:
    """Torchvision's: the kernel's two directions in float64, the picture padded by numpy's mode "reflect"."""
    result = pixels.astype(np.float64)
    for axis, size in ((1, kernel[0]), (0, kernel[1])):
        half = size // 2
        weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
        pad = [(half, half) if direction == axis else (0, 0) for direction in range(3)]
        padded = np.pad(result, pad, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=axis)
        result = windows @ (weights / weights.sum())
    return result


@every_picture
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 9), (23, 23), (1, 7), (51, 3)])
@pytest.mark.parametrize("sigma", [0.1, 0.8, 2.0, 11.0])
def test_gaussian_blur_is_the_formula_rounded(pixels: Pixels, kernel: tuple[int, int], sigma: float) -> None:
    got = _run(ops.GaussianBlur(kernel, sigma), pixels)
    assert np.abs(got - _blur_formula(pixels, kernel, sigma)).max() <= 0.502


@given(SMALL_PICTURES)
@settings(max_examples=40)
def test_blur_mirrors_a_picture_smaller_than_the_kernel_more_than_once(pixels: Pixels) -> None:
    got = _run(ops.GaussianBlur(11, 4.0), pixels)
    assert np.abs(got - _blur_formula(pixels, (11, 11), 4.0)).max() <= 0.502


@every_picture
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "op", [ops.ColorJitter(0.4, 0.4, 0.4, 0.1), ops.RandomGrayscale(0.5), ops.GaussianBlur(9, (0.5, 3.0))]
)
def test_operations_that_commute_with_flips_do_so_bit_for_bit(
    pixels: Pixels, op: tl.PictureOperation, axis: int
) -> None:
    flipped = np.ascontiguousarray(np.flip(pixels, axis))
    for sample in range(4):
        np.testing.assert_array_equal(np.flip(_run(op, pixels, sample), axis), _run(op, flipped, sample))


@every_picture
def test_flips_exchange_sides(pixels: Pixels) -> None:
    np.testing.assert_array_equal(_run(ops.RandomHorizontalFlip(1.0), pixels), pixels[:, ::-1])
    np.testing.assert_array_equal(_run(ops.RandomVerticalFlip(1.0), pixels), pixels[::-1])
    np.testing.assert_array_equal(_run(ops.RandomVerticalFlip(0.0), pixels), pixels)


def test_the_core_refuses_what_is_no_picture_or_no_operation() -> None:
    good = np.zeros((4, 4, 3), np.uint8)
    for pixels in (good[..., 0], good.astype(np.float32), good[:, ::2]):
        with pytest.raises(TypeError):
            core_testing.augment(pixels, "Invert", 0.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sides are"):
        core_testing.augment(good[:0], "Contrast", 0.5)
    with pytest.raises(ValueError, match="no such augmentation"):
        core_testing.augment(good, "Melt", 0.0)
    with pytest.raises(ValueError, match="melt"):
        core_testing.apply_pixel_op(good, "melt", 0, [], 0, 0, 0)
