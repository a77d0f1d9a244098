"""Resampling equals Pillow's resize(size, BILINEAR, box=box), with every instruction set.

Bit for bit where Pillow resizes columns first and rows second, as it always did up to version 12. Pillow 13 takes
either order, which moves the rounding between the two passes: a pixel may then differ by one.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from core_testing import KERNEL_NAMES, core_testing


def picture(width: int, height: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


Box = tuple[int, int, int, int]


def by_pillow(pixels: NDArray[np.uint8], box: Box, width: int, height: int) -> NDArray[np.uint8]:
    x, y, w, h = box
    resized = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR, box=(x, y, x + w, y + h))
    return np.asarray(resized)


def columns_first(pixels: NDArray[np.uint8], box: Box, width: int, height: int) -> NDArray[np.uint8]:
    x, y, w, h = box
    columns = by_pillow(pixels, (x, 0, w, len(pixels)), width, len(pixels))
    return by_pillow(columns, (0, y, width, h), width, height)


@st.composite
def requests(draw: st.DrawFn) -> tuple[int, int, Box, int, int]:
    width, height = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    w, h = draw(st.integers(1, width)), draw(st.integers(1, height))
    box = (draw(st.integers(0, width - w)), draw(st.integers(0, height - h)), w, h)
    return width, height, box, draw(st.integers(1, 120)), draw(st.integers(1, 120))


@settings(deadline=None, max_examples=150)
@given(requests())
def test_every_size_and_box_equals_pillow_with_every_instruction_set(
    request: tuple[int, int, Box, int, int],
) -> None:
    width, height, box, out_width, out_height = request
    pixels = picture(width, height, width * 91 + height)
    expected = columns_first(pixels, box, out_width, out_height)
    assert np.abs(expected.astype(int) - by_pillow(pixels, box, out_width, out_height)).max() <= 1
    for kernels in KERNEL_NAMES:
        assert np.array_equal(core_testing.resample(pixels, box, out_width, out_height, kernels), expected), kernels


@pytest.mark.parametrize("kernels", KERNEL_NAMES)
@pytest.mark.parametrize("size", [(2000, 40), (40, 2000), (1000, 700)])
def test_strong_shrinking_equals_pillow(size: tuple[int, int], kernels: str) -> None:
    pixels = picture(*size)
    expected = columns_first(pixels, (0, 0, *size), 7, 5)
    assert np.array_equal(core_testing.resample(pixels, (0, 0, *size), 7, 5, kernels), expected)


@pytest.mark.parametrize("kernels", KERNEL_NAMES)
def test_white_stays_white_and_black_black(kernels: str) -> None:
    for value in (0, 255):
        pixels = np.full((61, 83, 3), value, np.uint8)
        assert (core_testing.resample(pixels, (1, 2, 77, 55), 64, 64, kernels) == value).all()


def test_unknown_kernels_and_boxes_outside_are_refused() -> None:
    with pytest.raises(ValueError, match="kernels"):
        core_testing.resample(picture(4, 4), (0, 0, 4, 4), 2, 2, "mmx")
    with pytest.raises(ValueError, match="region"):
        core_testing.resample(picture(4, 4), (1, 0, 4, 4), 2, 2)
