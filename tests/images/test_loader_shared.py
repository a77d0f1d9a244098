"""A set that is resident is shared by all loaders of a process over the same samples; it goes with the last of them."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from loading_data import jpegs, write_dts, write_folder
from trainload.images.format import dts

COUNT, BATCH = 44, 8
OPS = [tl.RandomResizedCrop(16)]
LABELS = [n % 4 for n in range(COUNT)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_dts(tmp_path / "set.dts", jpegs(COUNT), LABELS, 10, picture_crcs=True)


def loader_of(ds: Any, **options: Any) -> tl.ImageLoader:
    given = {"batch_size": BATCH, "ops": OPS, "with_ids": True, "workers": 2, "mode": "fully"}
    return tl.ImageLoader(ds, **{**given, **options})


def read_bytes(loader: tl.ImageLoader) -> int:
    """Of one epoch."""
    before = loader.stats.read_bytes
    list(loader)
    return loader.stats.read_bytes - before


def share(one: tl.ImageLoader, other: tl.ImageLoader) -> bool:
    return one._resident is other._resident is not None


def test_the_second_loader_reads_nothing_and_has_the_same_pictures(path: Path) -> None:
    clean = loader_of(path, ops=[tl.CenterCrop(16)], shuffle="none")
    alone = [images.copy() for images, *_ in clean]
    del clean
    train = loader_of(path)
    assert read_bytes(train) > 0
    clean = loader_of(path, ops=[tl.CenterCrop(16)], shuffle="none")
    assert all(np.array_equal(mine, images) for mine, (images, *_) in zip(alone, clean, strict=True))
    assert clean.stats.read_bytes == 0


def test_the_plans_say_so(path: Path) -> None:
    first = loader_of(path)
    assert "arena with all samples" in first.memory_plan().buffers
    second = loader_of(path)
    for loader in (first, second):
        assert "arena with all samples (shared)" in loader.memory_plan().buffers
    second.close()
    assert "arena with all samples" in first.memory_plan().buffers


def test_ranks_seeds_and_weights_share(path: Path) -> None:
    first = loader_of(path, rank=0, world_size=2)
    assert share(first, loader_of(path, rank=1, world_size=2, seed=7))
    assert share(first, loader_of(path, weights=np.arange(COUNT)))


def test_equal_selections_share_and_others_do_not(path: Path) -> None:
    whole, some = loader_of(path), loader_of(path, indices=np.arange(20))
    assert not share(whole, some)
    assert share(some, loader_of(path, indices=np.arange(20)[::-1]))
    assert not share(some, loader_of(path, indices=np.arange(21)))
    assert share(whole, loader_of(path, indices=np.ones(COUNT, np.bool_)))


def test_another_check_or_mode_shares_nothing(path: Path) -> None:
    first = loader_of(path)
    assert not share(first, loader_of(path, verify="none"))
    assert not share(first, loader_of(path, mode="partial"))


def test_a_file_that_was_changed_or_replaced_is_another_set(path: Path) -> None:
    first = loader_of(path)
    os.utime(path, ns=(0, 0))
    assert not share(first, loader_of(path))
    second = loader_of(path)
    shutil.copy(path, path.with_name("copy.dts"))
    path.with_name("copy.dts").replace(path)
    assert not share(second, loader_of(path))


def test_a_folder_is_shared_by_the_loaders_of_one_reader(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "train", jpegs(COUNT), LABELS)
    ds = tl.open_images(folder)
    first, second = loader_of(ds), loader_of(ds)
    assert read_bytes(first) > 0 == read_bytes(second)
    assert not share(first, loader_of(tl.open_images(folder)))


def test_the_arena_goes_with_the_last_loader(path: Path) -> None:
    first, second = loader_of(path), loader_of(path)
    list(first)
    assert first._resident is not None
    arena = weakref.ref(first._resident.fill())
    first.close()
    gc.collect()
    assert arena() is not None and read_bytes(second) == 0
    del second
    gc.collect()
    assert arena() is None
    assert read_bytes(loader_of(path)) > 0


def test_loaders_made_and_read_by_many_threads_share_one_arena(path: Path) -> None:
    def load(seed: int) -> tuple[tl.ImageLoader, list[int]]:
        loader = loader_of(path, seed=seed)
        return loader, sorted(int(i) for *_, ids in loader for i in ids)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(load, range(8)))
    assert all(share(found[0][0], loader) and ids == list(range(COUNT)) for loader, ids in found)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_forked_child_goes_on_with_what_is_there(path: Path) -> None:
    loader = loader_of(path)
    list(loader)
    child = os.fork()
    if child == 0:
        other = loader_of(path)
        good = share(loader, other) and read_bytes(other) == 0 and read_bytes(loader) == 0
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_damaged_picture_is_damaged_for_every_loader(path: Path) -> None:
    with path.open("r+b") as file:
        start = int(tl.DtsReader(path).offsets[17])
        file.seek(dts.IMAGE_HEADER_BYTES + start + 600)
        file.write(b"\0\1\2\3")
    first = loader_of(path, on_error="replace")
    second = loader_of(path)
    with pytest.warns(RuntimeWarning, match="sample 17"):
        list(first)
    with pytest.raises(tl.SampleError, match="sample 17"):
        list(second)
    assert second.stats.read_bytes == 0
