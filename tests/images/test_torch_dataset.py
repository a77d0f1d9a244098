"""The map-style dataset works under torch's DataLoader, in any kind of worker process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

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
    for n, draw in ((0, 0), (7, 0), (23, 0), (-1, 1), (7, 1), (7, 2)):
        image, label = dataset[n]
        expected, labels = loader.batch([n % 24], epoch=2, draws=draw)
        assert np.array_equal(image.numpy(), expected[0])
        assert label == labels[0]
    with pytest.raises(IndexError):
        dataset[24]


def epochs_of(dataset, names, **options):
    """The pictures of some epochs by way of one DataLoader, each [24, 3, 16, 16]; a name of None calls nothing."""
    loader = DataLoader(dataset, batch_size=5, **options)
    found = []
    for name in names:
        if name is not None:
            dataset.set_epoch(name)
        batches = list(loader)
        assert torch.cat([labels for _, labels in batches]).tolist() == dataset.targets
        found.append(torch.cat([images for images, _ in batches]))
    return found


def by_law(path, epochs, draws):
    """The same pictures by the loader, at once."""
    loader = tl.ImageLoader(path, batch_size=24, ops=OPS)
    return [torch.from_numpy(loader.batch(range(24), epoch=e, draws=d)[0].copy()) for e, d in zip(epochs, draws)]


def are_equal(found, expected):
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


WORKERS = pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 0},
        {"num_workers": 2, "multiprocessing_context": "fork"},
        {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True},
        {"num_workers": 1, "multiprocessing_context": "spawn", "persistent_workers": True},
        {"num_workers": 1, "multiprocessing_context": "forkserver", "persistent_workers": True},
    ],
    ids=["none", "fork", "fork persistent", "spawn persistent", "forkserver persistent"],
)  # the last two import torch first
may_fork = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@WORKERS
@may_fork
def test_epochs_are_drawn_anew_with_no_call_and_are_the_loaders_where_they_are_named(path, options):
    dataset = tlt.ImageDataset(path, ops=OPS)
    found = epochs_of(dataset, (None, None, None, 7, 2, 7, None), **options)
    assert are_equal(found, by_law(path, (0, 0, 0, 7, 2, 7, 7), (0, 1, 2, 0, 0, 0, 1)))
    assert torch.equal(dataset[4][0], by_law(path, [7], [2])[0][4])


@may_fork
def test_several_loaders_over_one_dataset_share_the_draws(path):
    dataset = tlt.ImageDataset(path, ops=OPS)
    options: dict[str, Any] = {"multiprocessing_context": "fork", "persistent_workers": True}
    loaders = [DataLoader(dataset, batch_size=24, num_workers=n, **options) for n in (1, 2)]
    found = [next(iter(loaders[k]))[0] for k in (0, 1, 0, 1)]
    assert are_equal(found, by_law(path, [0] * 4, range(4)))


@pytest.mark.parametrize("persistent", [False, True])
@may_fork
def test_leaving_an_epoch_early_never_brings_a_picture_back(path, persistent):
    dataset = tlt.ImageDataset(path, ops=OPS)
    loader = DataLoader(
        dataset, batch_size=3, num_workers=2, multiprocessing_context="fork", persistent_workers=persistent
    )
    seen = []
    for _ in range(4):
        for n, (images, _) in enumerate(loader):
            seen += [image.numpy().tobytes() for image in images]
            if n == 2:
                break
    assert len(set(seen)) == len(seen) == 4 * 9


@may_fork
def test_repeats_of_a_sampler_are_drawn_anew(path):
    dataset = tlt.ImageDataset(path, ops=OPS)
    for named in (None, 5):
        if named is not None:
            dataset.set_epoch(named)
        batches = DataLoader(
            dataset, batch_size=4, sampler=[2, 9, 2, 2] * 8, num_workers=2, multiprocessing_context="fork"
        )
        found = [image.numpy().tobytes() for images, _ in batches for image in images]
        law = tl.ImageLoader(path, batch_size=1, ops=OPS)
        expected = [
            law.batch([i], epoch=named or 0, draws=d)[0].tobytes() for i, n in ((2, 24), (9, 8)) for d in range(n)
        ]
        assert sorted(found) == sorted(expected)
        assert len(set(found)) == 32


def test_processes_that_count_at_once_miss_nothing(path):
    dataset = tlt.ImageDataset(path, ops=OPS)
    asks, tasks = dataset._asks, 4
    context = torch.multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def ask() -> None:
        queue.put(np.concatenate([asks.take(np.array([1, 1, 5]))[1][:2] for _ in range(300)]).tolist())

    processes = [context.Process(target=ask, daemon=True) for _ in range(tasks)]
    for process in processes:
        process.start()
    draws = [draw for _ in processes for draw in queue.get()]
    for process in processes:
        process.join()
    assert sorted(draws) == list(range(tasks * 600))


class Rank:
    """torch.distributed as far as the dataset asks it."""

    def __init__(self, monkeypatch, rank, world_size):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world_size)


def test_ranks_that_pass_a_sample_on_draw_it_anew(path, monkeypatch):
    ranks = [tlt.ImageDataset(path, ops=OPS) for _ in range(3)]
    seen = []
    for epoch in range(6):  # each rank has another third of the samples in each epoch
        for r, dataset in enumerate(ranks):
            Rank(monkeypatch, r, 3)
            seen += [dataset[n][0].numpy().tobytes() for n in range(24) if (n + epoch * (1 + n % 2)) % 3 == r]
    assert len(set(seen)) == len(seen) == 6 * 24
    for r, dataset in enumerate(ranks):  # an epoch that is named has the pictures of the loader, on every rank
        Rank(monkeypatch, r, 3)
        dataset.set_epoch(4)
        assert torch.equal(torch.stack([dataset[n][0] for n in range(24)]), by_law(path, [4], [0])[0])
        assert torch.equal(dataset[5][0], by_law(path, [4], [3 + r])[0][5])


def test_workers_know_the_rank_that_sent_them(path, monkeypatch):
    dataset = tlt.ImageDataset(path, ops=OPS)
    with monkeypatch.context() as patch:
        Rank(patch, 1, 4)
        sent = pickle.dumps(dataset)
    assert torch.equal(pickle.loads(sent)[5][0], by_law(path, [0], [1])[0][5])
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert torch.equal(pickle.loads(sent)[5][0], by_law(path, [0], [1])[0][5])
    assert torch.equal(dataset[5][0], by_law(path, [0], [2])[0][5])


def test_shared_memory_without_room_is_named(path, monkeypatch):
    def full(tensor):
        raise RuntimeError("unable to allocate shared memory(shm): No space left on device (28)")

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    with pytest.raises(tl.UsageError, match=r"no room to count 24 samples.*shm-size.*No space left"):
        tlt.ImageDataset(path, ops=OPS)


def test_an_epoch_out_of_range_is_refused(path):
    for epoch in (-1, 2**32):
        with pytest.raises(tl.UsageError, match="epoch"):
            tlt.ImageDataset(path, ops=OPS).set_epoch(epoch)


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
    first = dataset[5][0]
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.epoch == 4
    assert torch.equal(copy[6][0], dataset[6][0])
    assert torch.equal(copy[5][0], dataset[5][0])  # both have drawn it once
    assert not torch.equal(first, dataset[5][0])
    copy.set_epoch(8)
    assert dataset.epoch == 4


@pytest.mark.parametrize("ops", [None, OPS])
def test_a_damaged_picture_is_named(tmp_path, ops):
    where = write_dts(tmp_path / "bad.dts", [*jpegs(3), b"\xff\xd8nothing"], [0] * 4, 2)
    with pytest.raises(tl.SampleError, match=r"sample 3 in block 1.*bad\.dts"):
        tlt.ImageDataset(where, ops=ops)[3]
