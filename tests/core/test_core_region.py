"""A region decode equals the full decode cropped, bit for bit; the full decode equals Pillow's."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from core_testing import core_testing
from jpeg_writer import SAMPLINGS, make_jpeg
from picture_folders import some_of
from trainload import _core

WIDTH, HEIGHT = 131, 97
MARKERS = ("none", "every MCU", "3 MCUs", "4 MCUs", "a row", "two rows", "a row and one")


def as_array(encoded: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(encoded, np.uint8)


def by_pillow(encoded: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


def interval_of(markers: str, sampling: str) -> int:
    row = -(-WIDTH // (8 * max(h for h, _ in SAMPLINGS[sampling])))
    return {"none": 0, "every MCU": 1, "3 MCUs": 3, "4 MCUs": 4, "a row": row, "two rows": 2 * row}.get(
        markers, row + 1
    )


def made(sampling: str, markers: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Bytes of a made-up picture and its pixels by Pillow."""
    encoded = make_jpeg(WIDTH, HEIGHT, sampling, restart_interval=interval_of(markers, sampling))
    return as_array(encoded), by_pillow(encoded)


def boxes(width: int, height: int, count: int, seed: int = 0) -> list[tuple[int, int, int, int]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        w, h = int(rng.integers(1, width + 1)), int(rng.integers(1, height + 1))
        found.append((int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1)), w, h))
    return found


def assert_regions_equal(data: NDArray[np.uint8], whole: NDArray[np.uint8], wanted: Sequence[tuple[int, ...]]) -> None:
    for x, y, w, h in wanted:
        cropped = whole[y : y + h, x : x + w]
        for splices in (True, False):
            region = core_testing.decode_region(data, x, y, w, h, splices=splices)
            assert np.array_equal(region, cropped), (x, y, w, h, splices)


@pytest.mark.parametrize(("sampling", "markers"), list(product(SAMPLINGS, MARKERS)))
def test_a_region_equals_the_crop_of_the_full_decode_for_every_sampling_and_marker_interval(
    sampling: str, markers: str
) -> None:
    data, whole = made(sampling, markers)
    assert np.array_equal(_core.decode_jpeg(data), whole)
    assert_regions_equal(data, whole, boxes(WIDTH, HEIGHT, 60))


@pytest.mark.parametrize(("sampling", "markers"), list(product(SAMPLINGS, ("none", "4 MCUs", "a row"))))
def test_a_region_may_start_and_end_at_every_offset_modulo_16(sampling: str, markers: str) -> None:
    data, whole = made(sampling, markers)
    starts = [(16 + x, 32 + y, 21 + y, 18 + x) for x, y in product(range(16), range(16))]
    assert_regions_equal(data, whole, starts)


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:0", "4:4:0", "gray"])
@pytest.mark.parametrize("denominator", [2, 4])
def test_a_region_of_a_scaled_picture_equals_the_crop_of_the_scaled_picture(sampling: str, denominator: int) -> None:
    data, _ = made(sampling, "a row")
    width, height = -(-WIDTH // denominator), -(-HEIGHT // denominator)
    whole = core_testing.decode_region(data, 0, 0, width, height, denominator, False)
    for x, y, w, h in boxes(width, height, 60):
        for splices in (True, False):
            region = core_testing.decode_region(data, x, y, w, h, denominator, splices)
            assert np.array_equal(region, whole[y : y + h, x : x + w]), (x, y, w, h, splices)


def test_only_the_segments_that_a_region_needs_have_to_be_sound() -> None:
    encoded = bytearray(make_jpeg(WIDTH, HEIGHT, "4:2:0", restart_interval=3))
    whole = by_pillow(bytes(encoded))
    last = encoded.rindex(b"\xff\xd0")
    encoded[last + 4 : last + 6] = b"\x00\x00"
    region = core_testing.decode_region(as_array(bytes(encoded)), 0, 0, 40, 20)
    assert np.array_equal(region, whole[:20, :40])


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("noise", [0, 8, 120])
def test_huffman_tables_of_every_kind_decode_exactly(noise: int, optimize: bool) -> None:
    """Short and long codes, large coefficients, blocks that end with their last coefficient."""
    rng = np.random.default_rng(noise)
    slope = np.linspace(0, 255, WIDTH)[None, :, None] + np.linspace(-99, 99, HEIGHT)[:, None, None]
    pixels = np.clip(slope + rng.normal(0, 1, (HEIGHT, WIDTH, 3)) * noise, 0, 255).astype(np.uint8)
    for quality in (1, 20, 50, 80, 95, 100):
        encoded = io.BytesIO()
        Image.fromarray(pixels).save(encoded, "JPEG", quality=quality, optimize=optimize, subsampling=quality % 3)
        whole = by_pillow(encoded.getvalue())
        assert np.array_equal(_core.decode_jpeg(as_array(encoded.getvalue())), whole)
        assert_regions_equal(as_array(encoded.getvalue()), whole, boxes(WIDTH, HEIGHT, 20))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_a_progressive_picture_is_exact_too(mode: str, subsampling: int) -> None:
    _, pixels = made("4:4:4", "none")
    encoded = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(encoded, "JPEG", progressive=True, subsampling=subsampling, quality=85)
    whole = by_pillow(encoded.getvalue())
    assert_regions_equal(as_array(encoded.getvalue()), whole, boxes(WIDTH, HEIGHT, 60))


def test_an_rgb_picture_is_not_taken_for_ycbcr() -> None:
    _, pixels = made("4:4:4", "none")
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "JPEG", keep_rgb=True, quality=90, restart_marker_rows=1)
    whole = by_pillow(encoded.getvalue())
    assert_regions_equal(as_array(encoded.getvalue()), whole, boxes(WIDTH, HEIGHT, 60))


def test_exif_and_other_long_segments_do_not_matter() -> None:
    _, pixels = made("4:4:4", "none")
    encoded = io.BytesIO()
    note = Image.Exif()
    note[0x9286] = b"\xff\xd9\xff\xda\xff\xc0" * 500
    Image.fromarray(pixels).save(encoded, "JPEG", exif=note, comment=b"\xff\xd8" * 99, restart_marker_blocks=2)
    whole = by_pillow(encoded.getvalue())
    assert_regions_equal(as_array(encoded.getvalue()), whole, boxes(WIDTH, HEIGHT, 60))


def test_real_pictures_are_exact(photos: Path) -> None:
    files = some_of(photos, 23)
    for seed, path in enumerate(files):
        encoded = path.read_bytes()
        whole = by_pillow(encoded)
        assert np.array_equal(_core.decode_jpeg(as_array(encoded)), whole)
        assert_regions_equal(as_array(encoded), whole, boxes(whole.shape[1], whole.shape[0], 4, seed))


@pytest.mark.parametrize("options", [{"restart_marker_rows": 1}, {"restart_marker_blocks": 4}])
def test_real_pictures_with_restart_markers_are_exact(photos: Path, options: dict[str, int]) -> None:
    files = some_of(photos, 91, 5)
    for seed, path in enumerate(files):
        encoded = io.BytesIO()
        Image.open(path).convert("RGB").save(encoded, "JPEG", quality=80, **options)
        whole = by_pillow(encoded.getvalue())
        assert_regions_equal(as_array(encoded.getvalue()), whole, boxes(whole.shape[1], whole.shape[0], 4, seed))


@pytest.mark.parametrize("box", [(-1, 0, 4, 4), (0, 0, 0, 4), (WIDTH - 3, 0, 4, 4), (0, 2**31 - 1, 1, 1)])
def test_a_region_outside_of_the_picture_is_refused(box: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="region"):
        core_testing.decode_region(made("gray", "none")[0], *box)
