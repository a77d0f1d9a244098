"""Damaged and odd pictures give a value or a reason, never a crash, and leave nothing behind."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from jpeg_writer import make_jpeg
from odd_jpegs import odd_jpegs
from trainload import _core
from trainload.images.decode import PictureDecoder
from trainload.images.ops import operations as ops

GOOD = make_jpeg(90, 70, "4:2:0", restart_interval=6)
# The core decodes these where Pillow 13 does not: a JFIF segment that is too short, a marker cut off at the end.
KINDER_THAN_PILLOW = {
    "corrupt__jpeg-decoder__8a9cc8eeed66aeb423a91c44111d9450.jpg",
    "corrupt__twelvemonkeys__jfif-bogus-empty-jfif-segment.jpg",
}
# 613 bytes that claim 193 x 31,237 pixels: Pillow gives gray, the core refuses what the bytes cannot code.
STRICTER_THAN_PILLOW = {"restart__jpeg-decoder__8e5e74dbf9b68a322fbb9512db837329.jpg"}


class OneByOne:
    """Decodes single pictures with one scratch, as a thread of the loader does."""

    def __init__(self) -> None:
        self.decoder = PictureDecoder([ops.RandomResizedCrop(32), ops.RandomHorizontalFlip()])
        self.scratch = self.decoder.new_scratch()

    def run(self, encoded: bytes, epoch: int = 0) -> tuple[NDArray[Any], int, str]:
        images, codes = np.zeros((1, 32, 32, 3), np.uint8), np.zeros(1, np.int32)
        zero, size = np.zeros(1, np.uint64), np.array([len(encoded)], np.uint64)
        arena = np.frombuffer(encoded, np.uint8)
        reasons = self.decoder.run(self.scratch, arena, zero, size, zero, 0, epoch, images, codes)
        return images[0], int(codes[0]), reasons.get(0, "")


def mutated(encoded: bytes, rng: np.random.Generator) -> bytes:
    """The picture with bytes changed, cut out, doubled, or its end missing."""
    data = bytearray(encoded)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(0, len(data)))
        match int(rng.integers(0, 6)):
            case 0 | 1:
                data[at] = int(rng.integers(0, 256))
            case 2:
                data[at : at + 2] = bytes([0xFF, int(rng.integers(0xC0, 0xFF))])
            case 3:
                del data[at : at + int(rng.integers(1, 9))]
            case 4:
                data[at:at] = data[at : at + int(rng.integers(1, 40))]
            case _:
                del data[max(at, len(data) // 3) :]
        if not data:
            break
    return bytes(data) or b"\xff"


def seeds_of_fuzzing() -> list[bytes]:
    pictures = [
        make_jpeg(70, 50, sampling, restart_interval=i) for i, sampling in enumerate(["4:2:0", "4:4:4", "gray"])
    ]
    pixels = Image.open(io.BytesIO(GOOD))
    for options in ({"progressive": True}, {"restart_marker_rows": 1, "quality": 30}, {"keep_rgb": True}):
        encoded = io.BytesIO()
        pixels.save(encoded, "JPEG", **options)
        pictures.append(encoded.getvalue())
    return pictures


def test_mutated_pictures_give_a_picture_or_a_reason() -> None:
    rng, one = np.random.default_rng(1), OneByOne()
    expected, code, _ = one.run(GOOD)
    assert code == 0
    seen = {0: 0, 2: 0}
    for encoded in seeds_of_fuzzing():
        for i in range(3400):
            _, code, reason = one.run(mutated(encoded, rng), i)
            assert bool(code) == bool(reason)
            seen[code] += 1
    assert min(seen.values()) > 500
    assert np.array_equal(one.run(GOOD)[0], expected)


def test_mutated_pictures_have_pillows_verdict_and_pillows_pixels() -> None:
    rng = np.random.default_rng(5)
    decoded = 0
    for encoded in seeds_of_fuzzing():
        for _ in range(250):
            damaged = mutated(encoded, rng)
            try:
                expected = np.asarray(Image.open(io.BytesIO(damaged), formats=("JPEG",)).convert("RGB"))
            except (OSError, SyntaxError, ValueError):
                expected = None
            try:
                pixels = _core.decode_jpeg(np.frombuffer(damaged, np.uint8))
            except ValueError:
                continue  # corrupt, or left to Pillow
            decoded += 1
            assert expected is not None
            assert np.array_equal(pixels, expected)
    assert decoded > 200


@pytest.fixture(scope="module", params=["made", "collected"])
def odd(request: pytest.FixtureRequest, at_hand: Callable[[str], Path]) -> dict[str, bytes]:
    """Odd JPEGs by name: ours, and collected ones where they are at hand."""
    if request.param == "made":
        return odd_jpegs()
    files = sorted(at_hand("shared/data/odd-jpegs").glob("*.*"))
    return {path.name: path.read_bytes() for path in files if path.suffix != ".json"}


def test_a_good_picture_after_a_bad_one_is_the_same_as_without_it(odd: dict[str, bytes]) -> None:
    expected = OneByOne().run(GOOD)[0]
    one = OneByOne()
    for name, encoded in odd.items():
        one.run(encoded or b"?")
        assert np.array_equal(one.run(GOOD)[0], expected), name


def test_tables_of_one_picture_are_not_there_for_the_next() -> None:
    """Without its Huffman tables a picture is decoded with the standard ones, whatever came before."""
    start = GOOD.index(b"\xff\xc4")
    length = int.from_bytes(GOOD[start + 2 : start + 4], "big")
    without = GOOD[:start] + GOOD[start + 2 + length :]
    expected = OneByOne().run(without)
    one = OneByOne()
    one.run(GOOD)
    again = one.run(without)
    assert np.array_equal(again[0], expected[0])
    assert again[1:] == expected[1:]


@pytest.mark.parametrize("kept", [1, 2, 20, 200, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_picture_is_corrupt_wherever_the_crop_lies(kept: float) -> None:
    encoded = GOOD[: int(kept if kept >= 1 else len(GOOD) * kept)]
    with pytest.raises((OSError, SyntaxError)):
        Image.open(io.BytesIO(encoded)).load()
    one = OneByOne()
    for epoch in range(30):
        _, code, reason = one.run(encoded, epoch)
        assert code == 2
        assert reason


def test_odd_pictures_have_pillows_verdict_and_pillows_pixels(odd: dict[str, bytes]) -> None:
    one = OneByOne()
    for name, encoded in odd.items():
        if name in KINDER_THAN_PILLOW:
            continue
        try:
            expected = np.asarray(Image.open(io.BytesIO(encoded), formats=("JPEG", "PNG")).convert("RGB"))
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
            expected = None
        if name in STRICTER_THAN_PILLOW:
            assert expected is not None
            expected = None
        codes = {one.run(encoded, epoch)[1] for epoch in range(4)} if encoded else {2}
        assert codes == ({2} if expected is None else {0}), name
        if expected is not None:
            height, width = expected.shape[:2]
            check_pixels(encoded, expected, width, height)


def check_pixels(encoded: bytes, expected: NDArray[np.uint8], width: int, height: int) -> None:
    """An output as large as the picture is the picture."""
    if width * height > 4_000_000:
        return
    decoder = PictureDecoder([ops.Resize((height, width))])
    images, codes = np.zeros((1, *decoder.shape), np.uint8), np.zeros(1, np.int32)
    zero, size = np.zeros(1, np.uint64), np.array([len(encoded)], np.uint64)
    decoder.run(decoder.new_scratch(), np.frombuffer(encoded, np.uint8), zero, size, zero, 0, 0, images, codes)
    assert np.array_equal(images[0], expected)


def test_a_cmyk_picture_takes_the_slow_path_and_equals_pillows_rgb() -> None:
    encoded = io.BytesIO()
    Image.open(io.BytesIO(GOOD)).convert("CMYK").save(encoded, "JPEG", quality=95)
    check_pixels(encoded.getvalue(), np.asarray(Image.open(encoded).convert("RGB")), 90, 70)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L"])
def test_a_png_takes_the_slow_path_and_equals_pillows_rgb(mode: str) -> None:
    encoded = io.BytesIO()
    Image.open(io.BytesIO(GOOD)).convert(mode).save(encoded, "PNG")
    check_pixels(encoded.getvalue(), np.asarray(Image.open(encoded).convert("RGB")), 90, 70)


def test_a_header_that_promises_a_huge_picture_is_refused_before_memory_is_taken() -> None:
    at = GOOD.index(b"\xff\xc0") + 5
    encoded = GOOD[:at] + b"\xff\xff\xff\xff" + GOOD[at + 4 :]
    _, code, reason = OneByOne().run(encoded)
    assert code == 2
    assert "claims 65535x65535 pixels" in reason


def test_a_picture_outside_of_the_arena_is_corrupt() -> None:
    decoder = PictureDecoder([ops.Resize((8, 8))])
    arena = np.frombuffer(GOOD, np.uint8)
    offsets = np.array([0, 1, len(GOOD) + 1, 2**64 - 1, 5], np.uint64)
    sizes = np.array([len(GOOD), len(GOOD), 0, 2, 2**64 - 1], np.uint64)
    images, codes = np.zeros((5, 8, 8, 3), np.uint8), np.zeros(5, np.int32)
    ids = np.zeros(5, np.uint64)
    reasons = decoder.run(decoder.new_scratch(), arena, offsets, sizes, ids, 0, 0, images, codes)
    assert codes.tolist() == [0, 2, 2, 2, 2]
    assert set(reasons) == {1, 2, 3, 4}
    assert all("outside" in reason for reason in reasons.values())


def test_a_crop_that_does_not_fit_is_that_pictures_error_on_both_paths() -> None:
    png = io.BytesIO()
    Image.new("RGB", (20, 20)).save(png, "PNG")
    decoder = PictureDecoder([ops.RandomCrop(64)])
    for encoded in (GOOD[:0] + make_jpeg(20, 20, "4:4:4"), png.getvalue()):
        images, codes = np.zeros((1, 64, 64, 3), np.uint8), np.zeros(1, np.int32)
        zero, size = np.zeros(1, np.uint64), np.array([len(encoded)], np.uint64)
        arena = np.frombuffer(encoded, np.uint8)
        reasons = decoder.run(decoder.new_scratch(), arena, zero, size, zero, 0, 0, images, codes)
        assert codes.tolist() == [2]
        assert "20x20" in reasons[0]
