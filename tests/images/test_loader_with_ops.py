"""A loader with other operations goes on over the memory of the one that it was made from: nothing is read again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trainload as tl
import trainload.jax as tlj
from loading_data import counted, jpegs, write_dts
from test_loader_ahead import read_ahead
from test_loader_arrays import write_array

COUNT, BATCH = 44, 8
SMALL, LARGE = [tl.RandomResizedCrop(12)], [tl.RandomResizedCrop(24), tl.RandomHorizontalFlip()]
MODES = pytest.mark.parametrize("mode", ["fully", "partial"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("with_ops") / "set.dts"
    return write_dts(where, jpegs(COUNT), [n % 4 for n in range(COUNT)], 10)


def loader_of(path: Path, **options: Any) -> tl.ImageLoader:
    given = {"batch_size": BATCH, "ops": SMALL, "with_ids": True, "workers": 2, "mode": "fully", "seed": 3}
    return tl.ImageLoader(path, **{**given, **options})


def bits(loader: Any) -> list[bytes]:
    return [b"".join(np.ascontiguousarray(part).tobytes() for part in batch) for batch in loader]


@MODES
def test_its_epochs_are_those_of_a_loader_that_always_had_these_operations(path: Path, mode: str) -> None:
    loader, other = loader_of(path, mode=mode), loader_of(path, mode=mode, ops=LARGE)
    assert bits(loader) != bits(other)
    grown = loader.with_ops(LARGE)
    assert grown.picture_shape == (24, 24, 3) and grown.epoch == loader.epoch == 1
    for _ in range(2):
        assert bits(grown) == bits(other)
    assert grown.epoch == 3 and loader.epoch == 1


def test_what_one_has_read_no_other_reads_again(path: Path) -> None:
    loader = loader_of(path)
    log = counted(loader)
    list(loader)
    assert log
    grown = loader.with_ops(LARGE)
    again = counted(grown)
    list(grown)
    list(grown.with_ops(SMALL))
    assert again == [] and grown.stats.read_bytes == 0


def test_what_was_read_ahead_in_mode_partial_is_taken_over(path: Path) -> None:
    loader = loader_of(path, mode="partial", group_blocks=1, tuning=tl.Tuning(io_workers=1))
    iterator = read_ahead(loader)
    grown = loader.with_ops(LARGE)
    log = counted(grown)
    _, _, ids = next(iter(grown))
    assert ids.tolist() == loader.epoch_ids(1)[:BATCH].tolist()
    assert loader.dataset.block_of[ids[0]] not in [unit for unit, *_ in log]
    del iterator


def test_an_arena_is_shared_also_where_the_first_loader_never_read(path: Path) -> None:
    loader = loader_of(path)
    grown = loader.with_ops(LARGE)
    list(grown)
    list(loader)
    assert loader.stats.read_bytes == 0 < grown.stats.read_bytes


def test_entry_points_are_shared(path: Path) -> None:
    loader = loader_of(path)
    grown = loader.with_ops(LARGE)
    assert loader._resident is not None and loader._resident is grown._resident
    assert loader._resident.entry_points is not None


@MODES
def test_the_memory_plan_says_what_is_shared_and_closing_one_leaves_the_other(path: Path, mode: str) -> None:
    loader = loader_of(path, mode=mode)
    list(loader)
    assert "(shared)" not in str(loader.memory_plan())
    grown = loader.with_ops(LARGE)
    names = [name for name in grown.memory_plan().buffers if "(shared)" in name]
    assert len(names) == (2 if mode == "fully" else 3)
    loader.close()
    assert "(shared)" not in str(grown.memory_plan())
    expected = loader_of(path, mode=mode, ops=LARGE)
    expected.set_epoch(1)
    assert bits(grown) == bits(expected)
    if mode == "fully":
        assert grown.stats.read_bytes == 0


@MODES
def test_both_may_be_read_at_once(path: Path, mode: str) -> None:
    loader = loader_of(path, mode=mode)
    grown = loader.with_ops(LARGE)
    mine, others = [], []
    for one, two in zip(loader, grown, strict=True):
        mine.append(one[2].tolist())
        others.append(two[2].tolist())
    assert mine == others


def test_it_begins_with_the_pass_that_would_be_next(path: Path) -> None:
    loader = loader_of(path)
    iterator = iter(loader)
    next(iterator)
    assert loader.with_ops(LARGE).state_dict()["epoch"] == 1  # the pass at work has used up epoch 0
    del iterator
    loader.load_state_dict({**loader.state_dict(), "epoch": 5, "position": 2 * BATCH})
    grown = loader.with_ops(LARGE)
    assert grown.state_dict() == loader.state_dict()
    assert next(iter(grown))[2].tolist() == loader.epoch_ids(5)[2 * BATCH : 3 * BATCH].tolist()


def test_a_state_of_one_loads_into_the_other(path: Path) -> None:
    loader = loader_of(path)
    grown = loader.with_ops(LARGE)
    iterator = iter(loader)
    next(iterator)
    grown.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert [ids.tolist() for _, _, ids in grown] == [ids.tolist() for _, _, ids in iterator]


def test_output_and_batch_size_may_change(path: Path) -> None:
    loader = loader_of(path)
    list(loader)
    grown = loader.with_ops(LARGE, out="float16", batch_size=4)
    images, _, ids = next(iter(grown))
    assert images.dtype == np.float16 and images.shape == (4, 3, 24, 24)
    assert ids.tolist() == loader.epoch_ids(1)[:4].tolist()
    assert grown.with_ops(SMALL).dtype == np.float16  # as the loader was given


def test_an_array_set_grows_too(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    target = write_array(path.parent / "cifar.dts", "CIFAR10", pixels, np.arange(20) % 4)
    loader = tl.ImageLoader(target, batch_size=8)
    list(loader)
    grown = loader.with_ops([tl.Resize((14, 14))])
    images, _ = next(iter(grown))
    assert images.shape == (8, 14, 14, 3) and grown.epoch == 1


@pytest.mark.parametrize("adapter", ["torch", "jax"])
def test_adapters_grow_as_the_loader_does(path: Path, adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = tlj.ImageLoader
    options: dict[str, Any] = {"batch_size": BATCH, "ops": SMALL, "workers": 2, "mode": "fully", "seed": 3}
    if adapter == "jax":
        monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(device_put=lambda part, sharding: part))
    else:
        pytest.importorskip("torch")
        import trainload.torch as tlt

        kind = tlt.ImageLoader
    loader = kind(path, **options)
    list(loader)
    grown = loader.with_ops(LARGE)
    assert type(grown) is kind and grown.epoch == 1
    images, labels = next(iter(grown))
    expected = loader_of(path, ops=LARGE, with_ids=False)
    expected.set_epoch(1)
    wanted, wanted_labels = next(iter(expected))
    given = np.asarray(images)
    assert (given.transpose(0, 2, 3, 1) if adapter == "torch" else given).tolist() == wanted.tolist()
    assert np.asarray(labels).tolist() == wanted_labels.tolist()
    assert grown.stats.read_bytes == 0
