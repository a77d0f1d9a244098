"""Entry points into pictures save time from the second epoch on; no result ever depends on them."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from core_testing import core_testing
from jpeg_writer import SAMPLINGS, make_jpeg
from picture_folders import some_of
from test_core_damage import mutated, seeds_of_fuzzing
from trainload import _core

OPS = [("random_resized_crop", 0, [24, 24, 0.03, 1.0, 0.5, 2.0]), ("horizontal_flip", 1, [0.5])]
PLENTY = 1 << 20


class Epochs:
    """Decodes pictures with the crops of any epoch, with a store of entry points or without."""

    def __init__(self, pictures: list[bytes], dct_scale: str = "off") -> None:
        self.pipeline = _core.Pipeline(OPS, 24, 24, "uint8", "NHWC", [], [], dct_scale)
        self.show(pictures)

    def show(self, pictures: list[bytes]) -> None:
        """Let these be the pictures with the ids 0, 1, ... from now on."""
        self.arena = np.frombuffer(b"".join(pictures), np.uint8)
        self.sizes = np.array([len(picture) for picture in pictures], np.uint64)
        self.offsets = (np.cumsum(self.sizes) - self.sizes).astype(np.uint64)
        self.ids = np.arange(len(pictures), dtype=np.uint64)

    def run(self, epoch: int, store: _core.EntryPointStore | None) -> tuple[NDArray[Any], list[int], dict[int, str]]:
        """Images (those of bad pictures black), codes, reasons."""
        images = np.zeros((len(self.ids), 24, 24, 3), np.uint8)
        codes, scratch = np.zeros(len(self.ids), np.int32), _core.Scratch()
        self.pipeline.run(
            scratch, self.arena, self.offsets, self.sizes, self.ids, 5, epoch, images, codes, entry_points=store
        )
        images[codes != 0] = 0
        return images, codes.tolist(), dict(scratch.messages)


def assert_store_changes_nothing(epochs: Epochs, store: _core.EntryPointStore, numbers: range) -> None:
    for epoch in numbers:
        images, codes, reasons = epochs.run(epoch, None)
        with_store = epochs.run(epoch, store)
        assert with_store[1:] == (codes, reasons), epoch
        assert np.array_equal(with_store[0], images), epoch


def pillow_jpeg(pixels: NDArray[np.uint8], **options: Any) -> bytes:
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "JPEG", **options)
    return encoded.getvalue()


@pytest.mark.parametrize("dct_scale", ["off", "auto"])
def test_every_sampling_and_marker_interval_decodes_alike_with_and_without(dct_scale: str) -> None:
    pictures = [make_jpeg(201, 163, sampling, restart_interval=i) for sampling, i in product(SAMPLINGS, (0, 1, 7, 26))]
    store = _core.EntryPointStore(PLENTY)
    assert_store_changes_nothing(Epochs(pictures, dct_scale), store, range(24))
    assert core_testing.size_bytes(store) > 0


@settings(max_examples=60, deadline=None)
@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    quality=st.integers(1, 100),
    subsampling=st.integers(0, 2),
    noise=st.sampled_from([0, 6, 90]),
    seed=st.integers(0, 99),
    optimize=st.booleans(),
)
def test_any_picture_decodes_alike_with_and_without(
    size: tuple[int, int], quality: int, subsampling: int, noise: int, seed: int, optimize: bool
) -> None:
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: size[1], : size[0]]
    plane = 128 + 100 * np.sin(x / 17 + y / 23) + rng.normal(0, 1, x.shape) * noise
    pixels = np.clip(np.stack([plane, plane[::-1], 255 - plane], -1), 0, 255).astype(np.uint8)
    optimize = optimize and noise < 90  # Pillow's buffer for it is too small for strong noise
    encoded = pillow_jpeg(pixels, quality=quality, subsampling=subsampling, optimize=optimize)
    assert_store_changes_nothing(Epochs([encoded]), _core.EntryPointStore(PLENTY), range(6))


def test_damaged_pictures_have_the_same_pixels_and_reasons_with_and_without() -> None:
    rng = np.random.default_rng(11)
    pictures = [mutated(encoded, rng) for encoded in seeds_of_fuzzing() for _ in range(120)]
    assert_store_changes_nothing(Epochs(pictures), _core.EntryPointStore(PLENTY), range(8))


def test_damage_that_is_met_only_later_is_met_with_and_without() -> None:
    """Early epochs find the upper rows sound; a lower crop still has libjpeg's view of what is broken between them."""
    pictures = []
    for n in range(40):
        encoded = bytearray(make_jpeg(160, 160, "4:2:0", seed=n))
        middle = len(encoded) * (40 + n) // 100
        encoded[middle : middle + 3] = b"\x9a\x00\xd1"
        pictures.append(bytes(encoded))
    assert_store_changes_nothing(Epochs(pictures), _core.EntryPointStore(PLENTY), range(15))


def test_real_pictures_decode_alike_with_and_without(photos: Path) -> None:
    files = some_of(photos, 41, 3)
    store = _core.EntryPointStore(PLENTY)
    assert_store_changes_nothing(Epochs([path.read_bytes() for path in files]), store, range(12))


def test_other_bytes_under_the_same_id_are_decoded_as_what_they_are() -> None:
    pictures = [make_jpeg(160, 160, "4:4:4", seed=n) for n in range(6)]
    store, epochs = _core.EntryPointStore(PLENTY), Epochs(pictures)
    assert_store_changes_nothing(epochs, store, range(5))
    epochs.show(pictures[::-1])
    assert_store_changes_nothing(epochs, store, range(5))


@pytest.mark.parametrize("budget", [0, 95, 1000, 5000])
def test_a_store_never_takes_more_than_its_budget(budget: int) -> None:
    store = _core.EntryPointStore(budget)
    epochs = Epochs([make_jpeg(160, 160, "4:2:0", seed=n) for n in range(30)])
    assert_store_changes_nothing(epochs, store, range(6))
    assert core_testing.size_bytes(store) <= budget
    assert (core_testing.size_bytes(store) > 0) == (budget >= 1000)


def test_a_picture_that_is_known_takes_no_more_memory() -> None:
    store, epochs = _core.EntryPointStore(PLENTY), Epochs([make_jpeg(160, 160, "4:2:0")])
    for epoch in range(60):
        epochs.run(epoch, store)
    known = core_testing.size_bytes(store)
    assert 25 * 12 <= known <= 25 * 12 + 96  # 100 MCUs of 6 blocks: every 4th
    for epoch in range(60, 90):
        epochs.run(epoch, store)
    assert core_testing.size_bytes(store) == known


def test_threads_share_a_store() -> None:
    epochs = Epochs([make_jpeg(160, 160, sampling, seed=n) for n in range(8) for sampling in ("4:2:0", "4:4:4")])
    expected = [epochs.run(epoch, None)[0] for epoch in range(16)]
    store = _core.EntryPointStore(PLENTY)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda epoch: epochs.run(epoch % 16, store)[0], range(48)))
    assert all(np.array_equal(images, expected[n % 16]) for n, images in enumerate(found))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), damaged_epochs=st.integers(1, 4), changes=st.integers(1, 3))
def test_nothing_learned_from_damaged_bytes_outlives_the_damage(seed: int, damaged_epochs: int, changes: int) -> None:
    """Crops of damaged pictures leave rows undecoded, so a decoder may find nothing wrong where points are wrong."""
    rng = np.random.default_rng(seed)
    whole = [make_jpeg(200, 200, ("4:2:0", "4:4:4")[n % 2], seed=n) for n in range(4)]
    store, epochs = _core.EntryPointStore(PLENTY), Epochs(whole)
    for epoch in range(8):
        shown = [bytearray(encoded) for encoded in whole]
        for encoded in shown if epoch < damaged_epochs else ():
            for _ in range(changes):
                encoded[rng.integers(700, len(encoded) - 2)] ^= 1 << rng.integers(8)
        epochs.show([bytes(encoded) for encoded in shown])
        assert_store_changes_nothing(epochs, store, range(epoch, epoch + 1))


def test_one_changed_bit_anywhere_is_another_picture() -> None:
    """A store that knows a picture keeps nothing of it for bytes that differ in one bit."""
    whole = make_jpeg(64, 64, "4:2:0")
    for at in range(0, len(whole), 7):
        store = _core.EntryPointStore(PLENTY)
        epochs = Epochs([whole])
        assert_store_changes_nothing(epochs, store, range(2))
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        epochs.show([bytes(changed)])
        assert_store_changes_nothing(epochs, store, range(3))
        epochs.show([whole])
        assert_store_changes_nothing(epochs, store, range(3))
