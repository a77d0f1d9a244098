"""MNIST and CIFAR come whole into memory; batches are gathers, or pass the same operations as pictures do."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import trainload as tl
from loading_data import write_array

RNG = np.random.default_rng(0)
CIFAR = RNG.integers(0, 256, (103, 32, 32, 3), np.uint8)
MNIST = RNG.integers(0, 256, (57, 28, 28, 1), np.uint8)


@pytest.fixture(params=[("CIFAR10", CIFAR), ("MNIST", MNIST)], ids=["cifar", "mnist"])
def case(request, tmp_path):
    kind, pixels = request.param
    labels = np.arange(len(pixels)) % 10
    return write_array(tmp_path / "array.dts", kind, pixels, labels), pixels, labels


@pytest.mark.parametrize("mode", ["auto", "partial"])
def test_batches_are_the_pictures_of_the_order(case, mode):
    path, pixels, labels = case
    loader = tl.ImageLoader(path, batch_size=10, with_ids=True, mode=mode)
    assert loader.mode == "fully"
    for epoch in range(2):
        seen = []
        for images, classes, ids in loader:
            assert np.array_equal(images, pixels[ids])
            assert np.array_equal(classes, labels[ids])
            seen += ids.tolist()
        assert seen == loader.epoch_ids(epoch).tolist()
        assert sorted(seen) == list(range(len(pixels)))


def test_normalize_is_the_formula(case):
    path, pixels, _ = case
    normalize = tl.Normalize.mnist() if pixels.shape[3] == 1 else tl.Normalize.cifar10()
    loader = tl.ImageLoader(path, batch_size=16, ops=[normalize], with_ids=True)
    for images, _, ids in loader:
        expected = (pixels[ids] / 255.0 - np.array(normalize.mean)) / np.array(normalize.std)
        assert images.dtype == np.float32
        assert np.allclose(images, expected.transpose(0, 3, 1, 2), atol=2e-6)


def test_augmented_batches_are_the_same_for_any_threads_and_any_batch_size(case):
    path, pixels, _ = case
    side = pixels.shape[1]
    ops = [tl.RandomCrop(side, padding=4), tl.RandomHorizontalFlip()]

    def stream(**options):
        return np.concatenate([images.copy() for images, _ in tl.ImageLoader(path, ops=ops, **options)])

    expected = stream(batch_size=10, workers=1)
    assert expected.shape == pixels.shape
    assert np.array_equal(stream(batch_size=7, workers=8), expected)


def test_a_state_and_ranks_work_on_arrays_too(case):
    path, _, _ = case
    ranks = [tl.ImageLoader(path, batch_size=8, with_ids=True, rank=r, world_size=2) for r in range(2)]
    iterators = [iter(loader) for loader in ranks]
    first = np.concatenate([next(iterator)[2] for iterator in iterators])
    one = tl.ImageLoader(path, batch_size=5, with_ids=True)
    one.load_state_dict(ranks[1].state_dict())
    rest = np.concatenate([ids for _, _, ids in one])
    assert np.array_equal(np.concatenate([first, rest]), one.epoch_ids(0))


def test_any_batch_at_once(case):
    path, pixels, _ = case
    images, _ = tl.ImageLoader(path, batch_size=8).batch([3, 0, 3])
    assert np.array_equal(images, pixels[[3, 0, 3]])


def test_a_small_gather_needs_no_thread_and_gives_what_threads_give(case):
    path, _, _ = case

    def untouched(images, labels):
        names.update(thread.name.split("-")[1] for thread in threading.enumerate() if "trainload" in thread.name)
        return images, labels

    names: set[str] = set()
    plain = tl.ImageLoader(path, batch_size=10, with_ids=True)
    for mine, other in zip(plain, tl.ImageLoader(path, batch_size=10, with_ids=True, ops=[untouched]), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(mine, other, strict=True))
    assert names == {"decode"}  # an operation of the user's may take its time
    iterator = iter(plain)
    next(iterator)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("trainload")]
    assert plain.stats.decode_seconds > 0
    iterator.close()
    assert list(iterator) == []
