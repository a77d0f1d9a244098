"""Bicubic, Lanczos, box and nearest: Pillow's resize with box, bit for bit, from JPEGs too and at every border.

The oracle resizes columns first and rows second, as Pillow does up to version 12 (tests/core/test_core_resample.py).
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import trainload as tl
from core_testing import KERNEL_NAMES, core_testing
from jpeg_writer import make_jpeg
from ops_plan import Scale, plan_sample
from pillow_oracle import FILTERS, Pixels, columns_first, noise_picture, smooth_picture
from trainload._core import EntryPointStore
from trainload.images.decode import PictureDecoder
from trainload.images.ops.operations import ResizeFilter
from trainload.images.ops.split import split_ops

every_filter = pytest.mark.parametrize("name", FILTERS)
SIZES = [(131, 97), (64, 150), (40, 40), (200, 33), (97, 131), (17, 11)]
SAMPLINGS = ["4:2:0", "4:4:4", "4:2:2", "4:4:0", "gray", "4:2:0"]
JPEGS = [
    make_jpeg(w, h, sampling, restart_interval=interval, seed=w)
    for (w, h), sampling, interval in zip(SIZES, SAMPLINGS, [9, 0, 2, 25, 17, 1], strict=True)
]
FLIPS = [tl.RandomHorizontalFlip(), tl.RandomVerticalFlip()]


def black_and_white(height: int, width: int) -> Pixels:
    """Every byte 0 or 255: filters with negative weights go beyond both ends."""
    return noise_picture(height, width) // 128 * 255


@st.composite
def requests(draw: st.DrawFn) -> tuple[Pixels, tuple[int, int, int, int], int, int]:
    width, height = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    w, h = draw(st.integers(1, width)), draw(st.integers(1, height))
    box = draw(st.integers(0, width - w)), draw(st.integers(0, height - h)), w, h
    make = draw(st.sampled_from([noise_picture, black_and_white, smooth_picture]))
    return make(height, width), box, draw(st.integers(1, 120)), draw(st.integers(1, 120))


@every_filter
@settings(deadline=None, max_examples=60)
@given(request=requests())
def test_every_size_and_box_equals_pillow_with_every_instruction_set(
    name: str, request: tuple[Pixels, tuple[int, int, int, int], int, int]
) -> None:
    pixels, box, width, height = request
    expected = columns_first(pixels, box, width, height, name)
    for kernels in KERNEL_NAMES:
        found = core_testing.resample(pixels, box, width, height, kernels, name)
        np.testing.assert_array_equal(found, expected, kernels)


@every_filter
@pytest.mark.parametrize("kernels", KERNEL_NAMES)
@pytest.mark.parametrize("size", [(40, 2000), (2000, 40), (2, 50_000), (50_000, 2)])
def test_strong_shrinking_equals_pillow(size: tuple[int, int], kernels: str, name: str) -> None:
    """50,000 inputs to 3: sums of the lower halves of small negative weights go beyond 32 bits, and come back."""
    pixels = black_and_white(*size)
    box = (0, 0, size[1], size[0])
    expected = columns_first(pixels, box, 3, 3, name)
    np.testing.assert_array_equal(core_testing.resample(pixels, box, 3, 3, kernels, name), expected)


@every_filter
@pytest.mark.parametrize("value", [0, 1, 254, 255])
def test_a_plain_picture_stays_plain(value: int, name: str) -> None:
    pixels = np.full((61, 83, 3), value, np.uint8)
    for kernels in KERNEL_NAMES:
        assert (core_testing.resample(pixels, (1, 2, 77, 55), 64, 90, kernels, name) == value).all()


def test_an_unknown_filter_is_refused() -> None:
    with pytest.raises(ValueError, match="hamming"):
        core_testing.resample(noise_picture(4, 4), (0, 0, 4, 4), 2, 2, "", "hamming")


def decoded(chosen: list[Any], pictures: list[bytes], epoch: int, scratch: Any = None, **options: Any) -> NDArray[Any]:
    """Every picture by the core, ids from 100 on."""
    return run(PictureDecoder(chosen, **options), pictures, epoch, scratch)


def run(decoder: PictureDecoder, pictures: list[bytes], epoch: int, scratch: Any = None) -> NDArray[Any]:
    sizes = np.array([len(picture) for picture in pictures], np.uint64)
    offsets, ids = np.cumsum(sizes) - sizes, np.arange(100, 100 + len(pictures), dtype=np.uint64)
    images, codes = np.zeros((len(ids), *decoder.shape), decoder.dtype), np.zeros(len(ids), np.int32)
    arena = np.frombuffer(b"".join(pictures), np.uint8)
    scratch = scratch or decoder.new_scratch()
    reasons = decoder.run(scratch, arena, offsets.astype(np.uint64), sizes, ids, 7, epoch, images, codes)
    assert not codes.any(), reasons
    return images


def planned(chosen: list[Any], size: tuple[int, int], sample: int, epoch: int) -> list[Any]:
    return plan_sample(split_ops(chosen).core, width=size[0], height=size[1], seed=7, epoch=epoch, sample=sample)


def by_pillow(chosen: list[Any], encoded: bytes, sample: int, epoch: int, denominator: int = 1) -> Pixels:
    """The plan carried out on the whole picture, decoded at 1 / denominator of its size for its first resize."""
    full = np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))
    pixels = full
    for step in planned(chosen, (full.shape[1], full.shape[0]), sample, epoch):
        if isinstance(step, Scale):
            if denominator > 1:
                sides = [-(-side // denominator) for side in (full.shape[1], full.shape[0])]
                pixels = core_testing.decode_region(np.frombuffer(encoded, np.uint8), 0, 0, *sides, denominator)  # type: ignore[call-arg]
            box = [number / denominator for number in (step.left, step.top, step.width, step.height)]
            pixels = columns_first(pixels, tuple(box), step.to_width, step.to_height, step.interpolation)  # type: ignore[arg-type]
            denominator = 1
        else:
            pixels = pixels[:, ::-1] if step.is_horizontal else pixels[::-1]
    return pixels


@every_filter
@pytest.mark.parametrize("flips", [[], FLIPS], ids=["no flips", "flips"])
def test_a_crop_of_a_jpeg_reads_all_that_the_filter_reaches(name: ResizeFilter, flips: list[Any]) -> None:
    """The region that is decoded holds the filter's feet on every side of the box."""
    for size in ((40, 56), (9, 11), (150, 150)):
        chosen = [tl.RandomResizedCrop(size, interpolation=name), *flips]
        for epoch in range(8):
            images = decoded(chosen, JPEGS, epoch)
            for image, encoded, sample in zip(images, JPEGS, range(100, 110), strict=False):
                np.testing.assert_array_equal(image, by_pillow(chosen, encoded, sample, epoch))


@every_filter
def test_entry_points_change_no_bit(name: ResizeFilter) -> None:
    chosen = [tl.RandomResizedCrop((20, 24), interpolation=name)]
    picture = [make_jpeg(600, 400, "4:2:0", restart_interval=0, seed=3)]
    decoder = PictureDecoder(chosen, entry_points=EntryPointStore(100_000))
    for epoch in range(12):
        np.testing.assert_array_equal(run(decoder, picture, epoch), decoded(chosen, picture, epoch))


@pytest.mark.parametrize("denominator", [2, 4])
@pytest.mark.parametrize("name", ["bilinear", "bicubic", "lanczos", "box"])
def test_at_half_size_the_box_and_its_borders_are_those_of_the_half_picture(
    name: ResizeFilter, denominator: int
) -> None:
    side = 30 if denominator == 2 else 8
    picture = [make_jpeg(163, 131, "4:2:0", restart_interval=0, seed=3), make_jpeg(200, 155, "4:4:4", seed=4)]
    chosen = [tl.RandomResizedCrop(side, scale=(0.1, 1.0), interpolation=name)]
    compared = 0
    for epoch in range(25):
        images = decoded(chosen, picture, epoch, dct_scale="auto")
        for image, encoded, sample in zip(images, picture, (100, 101), strict=True):
            (step,) = planned(chosen, Image.open(io.BytesIO(encoded)).size, sample, epoch)
            if min(step.width, step.height) // side in ({2, 3} if denominator == 2 else range(4, 99)):
                np.testing.assert_array_equal(image, by_pillow(chosen, encoded, sample, epoch, denominator))
                compared += 1
    assert compared > 10


def test_nearest_takes_pixels_of_the_whole_picture_also_where_others_are_decoded_at_half_size() -> None:
    chosen = [tl.Resize((5, 6), "nearest")]
    np.testing.assert_array_equal(decoded(chosen, JPEGS, 0, dct_scale="auto"), decoded(chosen, JPEGS, 0))


@every_filter
@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "NHWC4"])
@pytest.mark.parametrize("out", ["uint8", "float32", "float16"])
def test_every_layout_has_the_same_numbers_with_every_instruction_set(
    out: str, layout: str, name: ResizeFilter
) -> None:
    chosen = [tl.RandomResizedCrop((41, 59), interpolation=name), *FLIPS]
    wanted = decoded(chosen, JPEGS, 1)
    for kernels in KERNEL_NAMES:
        last = [] if out == "uint8" else [tl.Normalize.mlperf()]
        images = decoded([*chosen, *last], JPEGS, 1, core_testing.new_scratch(kernels), out=out, layout=layout)
        colours = images.transpose(0, 2, 3, 1) if layout == "NCHW" else images[..., :3]
        numbers = wanted if out == "uint8" else wanted - np.array([123.68, 116.78, 103.94], np.float32)
        np.testing.assert_array_equal(colours, numbers.astype(out))


@every_filter
def test_resize_by_the_shorter_side_then_crop_uses_the_filter(name: ResizeFilter) -> None:
    pixels = smooth_picture(61, 83)
    decoder = PictureDecoder([tl.Resize(30, name), tl.CenterCrop(24)], array_shape=pixels.shape)
    images = np.zeros((1, *decoder.shape), np.uint8)
    decoder.run_pixels(decoder.new_scratch(), pixels[None], np.zeros(1, np.uint64), 0, 0, images)
    whole = columns_first(pixels, (0, 0, 83, 61), 40, 30, name)
    np.testing.assert_array_equal(images[0], whole[3:27, 8:32])


def test_filters_that_go_beyond_are_clipped_between_the_passes() -> None:
    """A white square on black: without the clip the overshoots of both directions would meet in the corners."""
    pixels = np.zeros((20, 20, 3), np.uint8)
    pixels[5:15, 5:15] = 255
    for name in ("bicubic", "lanczos"):
        made = core_testing.resample(pixels, (0, 0, 20, 20), 70, 70, "", name)
        np.testing.assert_array_equal(made, columns_first(pixels, (0, 0, 20, 20), 70, 70, name))
        assert made.min() == 0 and made.max() == 255
