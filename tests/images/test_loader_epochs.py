"""Which epoch a pass is over: the one that is next when it hands out its first batch, and no other is used up."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from drive_data import write_drive
from loading_data import jpegs, write_dts

COUNT, BATCH = 30, 4


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("epochs") / "set.dts"
    return write_dts(where, jpegs(COUNT), [n % 4 for n in range(COUNT)], 10)


@pytest.fixture(scope="module")
def drive(tmp_path_factory) -> Path:
    return write_drive(tmp_path_factory.mktemp("drive") / "0.hfr", seconds=3.0).path


@pytest.fixture(params=["fully", "partial", "recordings"])
def make(request, path, drive) -> Any:
    """Makes loaders of one kind, and `ids(batch)`."""

    def loader_of(**options: Any) -> Any:
        if request.param == "recordings":
            dataset = tl.WindowDataset([drive], streams=["odometry"])
            return tl.HyperframeLoader(dataset, **{"batch_size": BATCH, "workers": 2, **options})
        ops = [tl.RandomResizedCrop(16)]
        given = {"batch_size": BATCH, "ops": ops, "with_ids": True, "workers": 2, "shuffle": "full"}
        return tl.ImageLoader(path, **{**given, "mode": request.param, **options})

    return loader_of


def ids_of(batch: Any) -> list[int]:
    return (batch[2] if isinstance(batch, tuple) else batch.ids).tolist()


def read(batches: Any) -> list[int]:
    return [i for batch in batches for i in ids_of(batch)]


def test_iterators_that_hand_out_nothing_use_up_no_epoch(make):
    loader = make()
    for epoch in range(3):
        for _ in range(3):
            iter(loader)
        assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (epoch, 0)
        assert read(loader) == loader.epoch_ids(epoch).tolist()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("trainload")]


def test_of_two_iterators_the_older_may_be_dropped(make):
    loader = make()
    older = iter(loader)
    newer = iter(loader)
    del older
    assert ids_of(next(newer)) == loader.epoch_ids(0)[:BATCH].tolist()
    assert loader.state_dict()["position"] == BATCH
    assert read(newer) == loader.epoch_ids(0)[BATCH:].tolist()
    assert read(loader) == loader.epoch_ids(1).tolist()


@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_set_after_iter_counts_until_the_first_batch(make, epoch):
    loader = make()
    iterator = iter(loader)
    loader.set_epoch(epoch)
    assert ids_of(next(iterator)) == loader.epoch_ids(epoch)[:BATCH].tolist()
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (epoch, BATCH)
    loader.set_epoch(7)  # of the next pass: this one is at work
    assert read(iterator) == loader.epoch_ids(epoch)[BATCH:].tolist()
    assert read(loader) == loader.epoch_ids(7).tolist()


def test_a_set_epoch_that_names_the_epoch_at_work_leaves_its_state(make):
    """Lightning says so after its first batch where it asks one batch ahead."""
    loader = make()
    loader.set_epoch(2)
    iterator = iter(loader)
    next(iterator)
    loader.set_epoch(2)
    next(iterator)
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (2, 2 * BATCH)
    assert read(iterator) == loader.epoch_ids(2)[2 * BATCH :].tolist()
    assert loader.state_dict()["epoch"] == 2  # what the next pass is over
    assert read(loader) == loader.epoch_ids(2).tolist()
    next(iter(loader))
    loader.set_epoch(3)  # nothing is at work there any more
    assert loader.state_dict()["position"] == 0
    assert read(loader) == loader.epoch_ids(3).tolist()


def test_a_state_loaded_after_iter_counts_until_the_first_batch(make):
    loader, other = make(), make(seed=9)
    loader.set_epoch(2)
    next(iter(loader))
    iterator = iter(other)
    other.load_state_dict(loader.state_dict())
    assert read(iterator) == loader.epoch_ids(2)[BATCH:].tolist()
    assert read(other) == loader.epoch_ids(3).tolist()


def test_a_batch_taken_uses_up_its_epoch_so_every_look_is_another(make):
    """`next(iter(loader))` in a loop draws new samples; the epochs that follow are whole and new."""
    loader = make()
    looks = [ids_of(next(iter(loader))) for _ in range(3)]
    assert looks == [loader.epoch_ids(epoch)[:BATCH].tolist() for epoch in range(3)]
    assert read(loader) == loader.epoch_ids(3).tolist()
    loader.set_epoch(0)  # who wants epoch 0 after a look says so
    assert read(loader) == loader.epoch_ids(0).tolist()


def test_an_iterator_that_fails_at_its_first_batch_uses_up_no_epoch(path):
    broken = [True]

    def fail(images, labels):
        if broken[0]:
            raise RuntimeError("not yet")
        return images, labels

    loader = tl.ImageLoader(path, batch_size=BATCH, ops=[tl.RandomResizedCrop(16), fail], with_ids=True)
    with pytest.raises(RuntimeError, match="not yet"):
        next(iter(loader))
    broken[0] = False
    assert read(loader) == loader.epoch_ids(0).tolist()


def test_a_pickled_loader_goes_on_in_the_middle_of_its_epoch(make):
    loader = make()
    loader.set_epoch(1)
    batches = iter(loader)
    next(batches), next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.state_dict() == loader.state_dict()
    assert read(copy) == read(batches)
    assert read(copy) == loader.epoch_ids(2).tolist()


@pytest.mark.parametrize("loaded", [0, 2, 5])
def test_skipped_batches_are_counted_from_the_start_of_the_epoch(make, loaded):
    loader = make()
    loader.set_epoch(1)
    if loaded:
        batches = iter(loader)
        for _ in range(loaded):
            next(batches)
        state = loader.state_dict()
        loader.load_state_dict(state)
    loader.skip_batches(3)
    assert read(loader) == loader.epoch_ids(1)[max(3, loaded) * BATCH :].tolist()
    loader.skip_batches(10**6)
    assert read(loader) == []
    assert loader.epoch == 3


def test_skipping_reads_and_decodes_nothing_of_what_is_skipped(path):
    seen = []

    def note(images, labels):
        seen.append(len(labels))
        return images, labels

    loader = tl.ImageLoader(path, batch_size=BATCH, ops=[tl.RandomResizedCrop(16), note], with_ids=True)
    loader.skip_batches(len(loader) - 1)
    assert len(read(loader)) == sum(seen) == COUNT - BATCH * (len(loader) - 1)


@pytest.mark.parametrize("world_size", [1, 5])
def test_a_loader_without_a_whole_batch_is_refused_with_its_numbers(make, world_size):
    total = len(make().epoch_ids(0))
    rank = {"rank": 0, "world_size": world_size}
    assert len(make(last="drop", batch_size=total // world_size, **rank)) == 1
    with pytest.raises(tl.UsageError, match=f"{total} samples.*{total // world_size + 1}") as caught:
        make(last="drop", batch_size=total // world_size + 1, **rank)
    assert ("5 ranks" in str(caught.value)) == (world_size == 5)
    assert len(make(last="pad", batch_size=total + 1, **rank)) == 1


def test_a_loader_without_samples_says_so(path):
    with pytest.warns(UserWarning, match="no samples"):
        assert list(tl.ImageLoader(path, batch_size=1, ops=[tl.Resize((8, 8))], indices=np.zeros(COUNT, bool))) == []
