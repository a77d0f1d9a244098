"""Every pixel operation of the core against Pillow, bit for bit; the blur against a float64 formula."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from trainload import _core
from trainload.imaging import ops

Pixels = NDArray[np.uint8]
Op = ops.ColorJitter | ops.RandomGrayscale | ops.GaussianBlur | ops.RandomRotation | ops.RandomHorizontalFlip

AFFINE = Image.Transform.AFFINE
FILTERS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}


def _smooth_picture(height: int, width: int) -> Pixels:
    """Waves and noise: neighbouring pixels are alike, all channels differ, all values occur."""
    generator = np.random.default_rng(5)
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / 9.0 + phase) + np.cos(y / 7.0 - phase) for phase in (0.0, 1.0, 2.5)]
    values = 127.5 + 64.0 * np.stack(waves, axis=-1) + generator.normal(0.0, 9.0, (height, width, 3))
    return np.clip(values, 0, 255).astype(np.uint8)


def _noise_picture(height: int, width: int) -> Pixels:
    return np.random.default_rng(6).integers(0, 256, (height, width, 3), dtype=np.uint8)


PICTURES = [_smooth_picture(61, 83), _noise_picture(64, 64), _smooth_picture(40, 40) // 3 + 50]
SMALL_PICTURES = arrays.arrays(
    np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)), elements=st.integers(0, 255)
)


def _run(op: Op | ops.RandAugment | ops.AutoAugment, pixels: Pixels, sample: int = 0) -> Pixels:
    kind, parameters = op.spec()
    result = pixels.copy()
    _core.apply_pixel_op(result, kind, 0, parameters, 0, 0, sample)
    return result


def _augment(pixels: Pixels, name: str, magnitude: float = 0.0, **keywords: object) -> Pixels:
    result = pixels.copy()
    _core.augment(result, name, magnitude, **keywords)
    return result


def _pillow_hue(picture: Image.Image, shift: float) -> Image.Image:
    hue, saturation, value = picture.convert("HSV").split()
    turned = np.asarray(hue) + np.array(int(shift * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


ADJUSTMENTS: list[tuple[str, Callable[[Image.Image, float], Image.Image], tuple[float, ...]]] = [
    ("brightness", lambda picture, x: ImageEnhance.Brightness(picture).enhance(x), (0.0, 0.3, 0.77, 1.4, 3.0)),
    ("contrast", lambda picture, x: ImageEnhance.Contrast(picture).enhance(x), (0.0, 0.3, 0.77, 1.4, 3.0)),
    ("saturation", lambda picture, x: ImageEnhance.Color(picture).enhance(x), (0.0, 0.3, 0.77, 1.4, 3.0)),
    ("hue", _pillow_hue, (-0.5, -0.21, 0.001, 0.1, 0.37, 0.5)),
]
CASES = [(name, pillow, value) for name, pillow, values in ADJUSTMENTS for value in values]


@pytest.mark.parametrize("pixels", PICTURES, ids=["smooth", "noise", "flat"])
@pytest.mark.parametrize(("name", "pillow", "value"), CASES, ids=[f"{name} {value}" for name, _, value in CASES])
def test_color_jitter_equals_pillow(
    pixels: Pixels, name: str, pillow: Callable[[Image.Image, float], Image.Image], value: float
) -> None:
    op = ops.ColorJitter(**{name: (value, value)})
    np.testing.assert_array_equal(_run(op, pixels), np.asarray(pillow(Image.fromarray(pixels), value)))


def test_hue_equals_pillow_for_every_third_colour() -> None:
    values = np.arange(0, 256, 3, dtype=np.uint8)
    cube = np.stack(np.meshgrid(values, values, values, indexing="ij"), axis=-1).reshape(86, -1, 3)
    got = _run(ops.ColorJitter(hue=(0.13, 0.13)), cube)
    np.testing.assert_array_equal(got, np.asarray(_pillow_hue(Image.fromarray(cube), 0.13)))


@pytest.mark.parametrize("pixels", PICTURES, ids=["smooth", "noise", "flat"])
def test_grayscale_equals_pillow_and_p_0_changes_nothing(pixels: Pixels) -> None:
    gray = np.asarray(Image.fromarray(pixels).convert("L").convert("RGB"))
    np.testing.assert_array_equal(_run(ops.RandomGrayscale(p=1.0), pixels), gray)
    np.testing.assert_array_equal(_run(ops.RandomGrayscale(p=0.0), pixels), pixels)


@given(SMALL_PICTURES, st.integers(0, 2**32))
@settings(max_examples=50)
def test_all_augmentations_equal_pillow_on_any_picture(pixels: Pixels, sample: int) -> None:
    for name, pillow, magnitude in AUGMENTATIONS:
        np.testing.assert_array_equal(
            _augment(pixels, name, magnitude), np.asarray(pillow(Image.fromarray(pixels))), err_msg=name
        )


def _pillow_affine(matrix: tuple[float, ...]) -> Callable[[Image.Image], Image.Image]:
    return lambda picture: picture.transform(
        picture.size, AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=(0, 0, 0)
    )


AUGMENTATIONS: list[tuple[str, Callable[[Image.Image], Image.Image], float]] = [
    ("Identity", lambda picture: picture, 0.0),
    ("ShearX", _pillow_affine((1, 0.17, 0, 0, 1, 0)), 0.17),
    ("ShearY", _pillow_affine((1, 0, 0, -0.3, 1, 0)), -0.3),
    ("TranslateX", _pillow_affine((1, 0, -3, 0, 1, 0)), 3.7),
    ("TranslateY", _pillow_affine((1, 0, 0, 0, 1, 2)), -2.9),
    ("Rotate", lambda picture: picture.rotate(-21.0, Image.Resampling.NEAREST, fillcolor=(0, 0, 0)), -21.0),
    ("Brightness", lambda picture: ImageEnhance.Brightness(picture).enhance(1.27), 0.27),
    ("Color", lambda picture: ImageEnhance.Color(picture).enhance(0.1), -0.9),
    ("Contrast", lambda picture: ImageEnhance.Contrast(picture).enhance(1.9), 0.9),
    ("Sharpness", lambda picture: ImageEnhance.Sharpness(picture).enhance(1.63), 0.63),
    ("Sharpness", lambda picture: ImageEnhance.Sharpness(picture).enhance(0.4), -0.6),
    ("Posterize", lambda picture: ImageOps.posterize(picture, 5), 5.0),
    ("Solarize", lambda picture: ImageOps.solarize(picture, 255.0 * 0.7), 0.7),
    ("AutoContrast", ImageOps.autocontrast, 0.0),
    ("Equalize", ImageOps.equalize, 0.0),
    ("Invert", ImageOps.invert, 0.0),
]


@pytest.mark.parametrize("pixels", PICTURES, ids=["smooth", "noise", "flat"])
@pytest.mark.parametrize(
    ("name", "pillow", "magnitude"), AUGMENTATIONS, ids=[f"{name} {magnitude}" for name, _, magnitude in AUGMENTATIONS]
)
def test_each_augmentation_equals_pillow(
    pixels: Pixels, name: str, pillow: Callable[[Image.Image], Image.Image], magnitude: float
) -> None:
    np.testing.assert_array_equal(_augment(pixels, name, magnitude), np.asarray(pillow(Image.fromarray(pixels))))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("degrees", [0.0, 13.7, 45.0, 90.0, -90.0, 180.0, 271.0, -333.25])
@pytest.mark.parametrize("center", [None, (10.0, 20.5)])
@pytest.mark.parametrize("pixels", PICTURES, ids=["smooth", "noise", "flat"])
def test_rotation_equals_pillow(
    pixels: Pixels, degrees: float, interpolation: ops.Interpolation, center: tuple[float, float] | None
) -> None:
    op = ops.RandomRotation((degrees, degrees), interpolation, center=center, fill=(9, 99, 199))
    pillow = Image.fromarray(pixels).rotate(degrees, FILTERS[interpolation], center=center, fillcolor=(9, 99, 199))
    np.testing.assert_array_equal(_run(op, pixels), np.asarray(pillow))


@pytest.mark.parametrize("magnitude", [0.11, -0.3])
def test_bilinear_shear_equals_pillow(magnitude: float) -> None:
    for pixels in PICTURES:
        picture = Image.fromarray(pixels)
        matrix = (1, magnitude, 0, 0, 1, 0)
        expected = picture.transform(picture.size, AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=(1, 2, 3))
        got = _augment(pixels, "ShearX", magnitude, bilinear=True, fill=(1, 2, 3))
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


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (5, 9), (23, 23), (1, 7), (51, 3)])
@pytest.mark.parametrize("sigma", [0.1, 0.8, 2.0, 11.0])
def test_gaussian_blur_rounds_the_formula(kernel: tuple[int, int], sigma: float) -> None:
    """Equal to the formula rounded to the nearest, but for sums within 0.002 of a half."""
    for pixels in PICTURES:
        # ops: kernel_size is (width, height), as in torchvision
        got = _run(ops.GaussianBlur(kernel, sigma), pixels)
        error = np.abs(got - _blur_formula(pixels, kernel, sigma))
        assert error.max() <= 0.502


def test_blur_mirrors_a_picture_smaller_than_the_kernel_more_than_once() -> None:
    pixels = _noise_picture(3, 2)
    error = np.abs(_run(ops.GaussianBlur(11, 4.0), pixels) - _blur_formula(pixels, (11, 11), 4.0))
    assert error.max() <= 0.502


@pytest.mark.parametrize("axis", [0, 1])
def test_operations_that_commute_with_flips_do_so_bit_for_bit(axis: int) -> None:
    commuting = [ops.ColorJitter(0.4, 0.4, 0.4, 0.1), ops.RandomGrayscale(0.5), ops.GaussianBlur(9, (0.5, 3.0))]
    for op in commuting:
        for sample, pixels in enumerate(PICTURES):
            flipped = np.ascontiguousarray(np.flip(pixels, axis))
            np.testing.assert_array_equal(np.flip(_run(op, pixels, sample), axis), _run(op, flipped, sample))


def test_flips_exchange_sides() -> None:
    for pixels in PICTURES:
        np.testing.assert_array_equal(_run(ops.RandomHorizontalFlip(1.0), pixels), pixels[:, ::-1])
        np.testing.assert_array_equal(_run(ops.RandomVerticalFlip(1.0), pixels), pixels[::-1])
        np.testing.assert_array_equal(_run(ops.RandomVerticalFlip(0.0), pixels), pixels)


def test_the_core_refuses_what_is_no_picture_or_no_operation() -> None:
    for pixels in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((4, 8, 3), np.uint8)[:, ::2]):
        with pytest.raises(TypeError):
            _core.augment(pixels, "Invert", 0.0)
    with pytest.raises(ValueError, match="no such augmentation"):
        _core.augment(np.zeros((4, 4, 3), np.uint8), "Melt", 0.0)
    with pytest.raises(ValueError, match="melt"):
        _core.apply_pixel_op(np.zeros((4, 4, 3), np.uint8), "melt", 0, [], 0, 0, 0)


def test_posterize_and_solarize_magnitudes_follow_torchvision() -> None:
    bits = [_core.augmentation_magnitude("Posterize", bin_, 10, 1, 1) for bin_ in range(10)]
    assert bits == [8, 8, 7, 7, 6, 6, 5, 5, 4, 4]
    assert _core.augmentation_magnitude("Solarize", 9, 31, 1, 1) == pytest.approx(0.7)
    assert _core.augmentation_magnitude("TranslateX", 30, 31, 331, 1) == pytest.approx(150.0)
    assert math.isclose(_core.augmentation_magnitude("Rotate", 9, 10, 1, 1), 30.0)
