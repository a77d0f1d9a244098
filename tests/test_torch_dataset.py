"""The map-style dataset works under torch's DataLoader, in any kind of worker process."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from loading_data import jpegs, write_dts, write_folder

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402 (needs torch)

import trainload.torch as tlt  # noqa: E402

OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip(), tl.Normalize.imagenet()]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("dataset") / "set.dts"
    return write_dts(where, jpegs(24), [n % 4 for n in range(24)], 10)


def test_a_sample_is_what_the_loader_makes_of_it(path):
    dataset = tlt.ImageDataset(path, ops=OPS, seed=3)
    dataset.set_epoch(2)
    loader = tl.ImageLoader(path, batch_size=4, ops=OPS, seed=3)
    for n in (0, 7, 23, -1):
        image, label = dataset[n]
        expected, labels = loader.batch([n % 24], epoch=2)
        assert np.array_equal(image.numpy(), expected[0])
        assert label == labels[0]
    with pytest.raises(IndexError):
        dataset[24]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_dataloader_reads_it_from_any_kind_of_worker(path, method):
    dataset = tlt.ImageDataset(path, ops=OPS)
    dataset[0]
    workers = 2 if method == "fork" else 1  # the others import torch first
    loader = DataLoader(dataset, batch_size=5, num_workers=workers, multiprocessing_context=method)
    images = torch.cat([images for images, _ in loader])
    labels = torch.cat([labels for _, labels in loader])
    assert labels.tolist() == dataset.targets
    assert torch.equal(images, torch.stack([dataset[n][0] for n in range(24)]))


def test_without_operations_it_gives_pillow_pictures(tmp_path, path):
    folder = write_folder(tmp_path, jpegs(3), [0, 1, 1])
    for ds in (path, folder):
        picture, label = tlt.ImageDataset(ds)[1]
        assert (picture.size, picture.mode) == ((48, 40), "RGB")
        assert label == 1
        assert tlt.ImageDataset(ds, transform=np.asarray)[1][0].shape == (40, 48, 3)
    assert tlt.ImageDataset(folder).classes == ["class000", "class001"]
    with pytest.raises(tl.UsageError):
        tlt.ImageDataset(path, ops=OPS, transform=np.asarray)


def test_it_pickles_with_its_epoch(path):
    dataset = tlt.ImageDataset(path, ops=OPS, seed=9)
    dataset.set_epoch(4)
    copy = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(copy[5][0], dataset[5][0])


@pytest.mark.parametrize("ops", [None, OPS])
def test_a_damaged_picture_is_named(tmp_path, ops):
    where = write_dts(tmp_path / "bad.dts", [*jpegs(3), b"\xff\xd8nothing"], [0] * 4, 2)
    with pytest.raises(tl.SampleError, match=r"sample 3 in block 1.*bad\.dts"):
        tlt.ImageDataset(where, ops=ops)[3]
