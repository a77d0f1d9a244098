"""All operations together in a loader: the same bits for any threads and ranks, after a resume, and at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from loading_data import jpegs, write_folder

BATCH, SAMPLES, CLASSES = 5, 43, 4
OPS: list[Any] = [
    tl.RandomResizedCrop(24),
    tl.RandomHorizontalFlip(),
    tl.ColorJitter(0.4, 0.4, 0.4, 0.1),
    tl.RandomGrayscale(),
    tl.GaussianBlur(5),
    tl.RandomRotation(10, "bilinear"),
    tl.RandAugment(),
    tl.AutoAugment("cifar10"),
    tl.Normalize.imagenet(),
    tl.RandomErasing(0.5, value="random"),
    tl.MixUp(num_classes=CLASSES),
    tl.CutMix(),
    lambda images, labels: (images * 2, labels),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = sorted(n % CLASSES for n in range(SAMPLES))
    return write_folder(tmp_path_factory.mktemp("ops"), jpegs(SAMPLES), labels)


def _loader(folder: Path, **options: Any) -> tl.ImageLoader:
    return tl.ImageLoader(tl.open(folder), **{"batch_size": BATCH, "ops": OPS, "seed": 3, "last": "drop", **options})


def _bits(batches: Iterator[Any]) -> list[bytes]:
    return [images.tobytes() + labels.tobytes() for images, labels in batches]


@pytest.fixture(scope="module")
def epoch(folder: Path) -> list[bytes]:
    return _bits(iter(_loader(folder, workers=1)))


def test_batches_are_the_same_for_any_number_of_threads(folder: Path, epoch: list[bytes]) -> None:
    assert len(epoch) == SAMPLES // BATCH and len(set(epoch)) == len(epoch)
    assert _bits(iter(_loader(folder, workers=5))) == epoch


def test_ranks_share_out_the_same_batches(folder: Path, epoch: list[bytes]) -> None:
    for world_size in (2, 4):
        ranks = [_bits(iter(_loader(folder, rank=rank, world_size=world_size))) for rank in range(world_size)]
        together = [batch for step in zip(*ranks) for batch in step]
        assert together == epoch[: len(together)]


def test_a_resume_goes_on_with_the_same_bits(folder: Path, epoch: list[bytes]) -> None:
    loader = _loader(folder)
    batches = iter(loader)
    assert _bits(iter([next(batches) for _ in range(3)])) == epoch[:3]
    resumed = _loader(folder)
    resumed.load_state_dict(loader.state_dict())
    assert _bits(iter(resumed)) == epoch[3:]


def test_a_batch_at_once_equals_the_one_of_the_epoch(folder: Path, epoch: list[bytes]) -> None:
    loader = _loader(folder)
    ids = loader.epoch_ids(0)[2 * BATCH : 3 * BATCH]
    assert _bits(iter([loader.batch(ids, epoch=0)])) == [epoch[2]]


def test_epochs_differ_and_labels_stay_weights(folder: Path) -> None:
    loader = _loader(folder)
    first, second = list(loader), list(loader)
    assert not np.array_equal(first[0][0], second[0][0])
    for images, labels in first + second:
        assert images.shape == (BATCH, 3, 24, 24) and np.isfinite(images).all()
        np.testing.assert_allclose(labels.sum(axis=1), 1.0, atol=1e-5)
