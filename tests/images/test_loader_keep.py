"""keep="pixels": pictures that come equal in every epoch are decoded once, kept as uint8, and are the same bits."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import trainload as tl
from loading_data import counted, jpegs, write_dts, write_folder
from test_loader_arrays import write_array
from trainload.images.loading.modes import check_kept
from trainload.memory.limits import MemoryLimit

COUNT, BATCH = 44, 8
LABELS = [n % 4 for n in range(COUNT)]
EVAL = [tl.Resize(24), tl.CenterCrop(20)]
NORMALIZE = tl.Normalize.imagenet()
MODES = pytest.mark.parametrize("mode", ["fully", "partial"])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("keep") / "set.dts"
    return write_dts(where, jpegs(COUNT), LABELS, 10, training=False)


def loader_of(ds: Any, **options: Any) -> tl.ImageLoader:
    given = {"batch_size": BATCH, "ops": [*EVAL, NORMALIZE], "with_ids": True, "workers": 2, "keep": "pixels"}
    return tl.ImageLoader(ds, **{**given, "group_blocks": 2, "tuning": tl.Tuning(io_workers=2), **options})


def bits(batches: Any) -> list[bytes]:
    return [b"".join(part.tobytes() for part in batch) for batch in batches]


@MODES
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"out": "float16"},
        {"ops": EVAL},
        {"ops": EVAL, "layout": "NHWC4"},
        {"ops": EVAL, "out": "float32", "layout": "NHWC"},
        {"ops": [tl.Pad(2), *EVAL, NORMALIZE], "shuffle": True},
        {"ops": [*EVAL, NORMALIZE, tl.MixUp(num_classes=4)], "shuffle": True},
        {"dct_scale": "auto", "ops": [tl.Resize((10, 10)), NORMALIZE]},
        {"orientation": "exif"},
        {"weights": np.arange(COUNT)},
        {"indices": [5, 9, 5, 40, 1, 2, 3, 30, 31, 7]},
    ],
    ids=lambda options: ",".join(options) or "plain",
)
def test_every_epoch_has_the_bits_that_it_has_without(path: Path, mode: str, options: dict[str, Any]) -> None:
    loader, other = (loader_of(path, mode=mode, keep=keep, **options) for keep in ("pixels", None))
    for _ in range(3):
        assert bits(loader) == bits(other)


@MODES
def test_the_first_epoch_reads_and_decodes_the_later_ones_do_neither(
    path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = loader_of(path, mode=mode)
    log = counted(loader)
    first = bits(loader)
    read = len(log)
    assert read == 5
    kept = loader._decoder.kept
    assert kept is not None
    monkeypatch.setattr(type(kept), "put", None)
    assert bits(loader) == first and len(log) == read


def test_the_arena_goes_once_everything_is_kept(path: Path) -> None:
    loader = loader_of(path, mode="fully")
    list(loader)
    assert loader._resident is not None
    arena = weakref.ref(loader._resident.fill())
    list(loader)
    gc.collect()
    assert arena() is None


@MODES
def test_an_epoch_that_was_left_is_completed_by_the_next(path: Path, mode: str) -> None:
    loader, other = (loader_of(path, mode=mode, keep=keep, shuffle="full") for keep in ("pixels", None))
    assert bits(islice(loader, 2)) == bits(islice(other, 2))
    for _ in range(2):
        assert bits(loader) == bits(other)
    log = counted(loader)
    assert bits(loader) == bits(other) and log == []


@pytest.mark.parametrize("shuffle", ["none", "full"])
def test_each_rank_keeps_what_it_has_had(path: Path, shuffle: str) -> None:
    loader = loader_of(path, mode="fully", rank=1, world_size=3, shuffle=shuffle)
    other = loader_of(path, mode="fully", rank=1, world_size=3, shuffle=shuffle, keep=None)
    log = counted(loader)
    assert bits(loader) == bits(other)
    read = len(log)
    for _ in range(3):
        assert bits(loader) == bits(other)
    assert (len(log) == read) == (shuffle == "none")


def test_a_resume_in_mid_epoch_and_a_pickled_copy_have_the_same_bits(path: Path) -> None:
    loader, other = loader_of(path), loader_of(path, keep=None)
    iterator, expected = iter(loader), iter(other)
    next(iterator), next(expected)
    copy = pickle.loads(pickle.dumps(loader))
    assert bits(copy) == bits(expected) == bits(iterator)


@MODES
def test_damaged_pictures_are_replaced_and_counted_alike_in_every_epoch(tmp_path: Path, mode: str) -> None:
    pictures = jpegs(COUNT)
    pictures[3] = pictures[3][:200]
    pictures[20] = b"no picture"
    path = write_dts(tmp_path / "bad.dts", pictures, LABELS, 10, training=False)
    loader, other = (loader_of(path, mode=mode, keep=keep, on_error="replace") for keep in ("pixels", None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in range(3):
            assert bits(loader) == bits(other)
            assert loader.stats.replaced == other.stats.replaced == 2 * (epoch + 1)
            assert str(loader.stats.last_replaced) == str(other.stats.last_replaced)
    strict = loader_of(path, mode=mode)
    for _ in range(2):
        strict.set_epoch(0)
        with pytest.raises(tl.SampleError, match="sample 3 "):
            list(strict)


def test_a_picture_whose_checksum_is_wrong_stays_damaged(tmp_path: Path) -> None:
    path = write_dts(tmp_path / "sums.dts", jpegs(COUNT), LABELS, 10, training=False, picture_crcs=True)
    ds = tl.DtsReader(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 5 * (16 << 20) + int(ds.offsets[17]) + 600)
        file.write(b"\0\1\2\3")
    loader = loader_of(path, on_error="replace")
    with pytest.warns(RuntimeWarning, match="sample 17"):
        list(loader)
    list(loader)
    assert loader.stats.replaced == 2 and "CRC-32" in str(loader.stats.last_replaced)


def test_a_folder_and_formats_that_pillow_decodes_are_kept_too(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "train", jpegs(20), [n // 5 for n in range(20)])
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 48, 3), np.uint8)).save(folder / "class000/a.png")
    loader, other = (loader_of(folder, keep=keep) for keep in ("pixels", None))
    for _ in range(2):
        assert bits(loader) == bits(other)


def test_any_batch_at_once_is_the_same(path: Path) -> None:
    loader, other = loader_of(path, indices=np.arange(20)), loader_of(path, indices=np.arange(20), keep=None)
    list(loader)
    list(loader)
    for ids in ([3, 1], [43, 0]):
        assert bits([loader.batch(ids)]) == bits([other.batch(ids)])


def test_closing_gives_it_back_and_leaves_a_running_iterator_its_own(path: Path) -> None:
    loader, other = loader_of(path), loader_of(path, keep=None)
    list(loader)
    kept = loader._decoder.kept
    iterator = iter(loader)
    first = [next(iterator)]
    assert kept is not None
    gone = weakref.ref(kept)
    del kept
    loader.close()
    assert bits([*first, *iterator]) == bits(other)
    del iterator, first
    gc.collect()
    assert gone() is None


def test_the_memory_plan_counts_it(path: Path) -> None:
    plan, without = loader_of(path).memory_plan(), loader_of(path, keep=None).memory_plan()
    assert plan.buffers["pixels that are kept"] == COUNT * 20 * 20 * 3
    assert "pixels that are kept" not in without.buffers


@pytest.mark.parametrize(
    "op", [tl.RandomResizedCrop(16), tl.RandomCrop(16), tl.RandomHorizontalFlip(), tl.GaussianNoise()]
)
def test_operations_that_draw_are_refused_by_name(path: Path, op: Any) -> None:
    ops = [op] if not isinstance(op, tl.GaussianNoise) else [*EVAL, op]
    with pytest.raises(tl.UsageError, match=f"these draw: .*{type(op).__name__}"):
        loader_of(path, ops=[*ops, tl.CenterCrop(16)] if isinstance(op, tl.RandomHorizontalFlip) else ops)


def test_what_does_not_fit_is_refused_with_the_figures() -> None:
    limit = MemoryLimit(10_000_000_000, "physical memory")
    check_kept(4_000_000_000, 1_000_000_000, limit)
    with pytest.raises(tl.UsageError, match=r"needs 4.00 GB beside an arena of 1.10 GB.*half of the 10.00 GB"):
        check_kept(4_000_000_000, 1_100_000_000, limit)
    with pytest.raises(tl.UsageError, match=r"needs 3.00 GB, which.*/ 2 processes"):
        check_kept(3_000_000_000, 0, limit, 2)


def test_an_array_set_and_another_word_are_refused(path: Path, tmp_path: Path) -> None:
    array = write_array(tmp_path / "c.dts", "CIFAR10", np.zeros((4, 32, 32, 3), np.uint8), np.zeros(4, np.int64))
    with pytest.raises(tl.UsageError, match="in memory as pixels anyway"):
        tl.ImageLoader(array, batch_size=2, keep="pixels")
    with pytest.raises(tl.UsageError, match="keep is 'bytes'"):
        loader_of(path, keep="bytes")


def test_with_ops_keeps_anew(path: Path) -> None:
    loader = loader_of(path)
    list(loader)
    list(loader)
    grown = loader.with_ops([tl.Resize((8, 8))])
    expected = loader_of(path, keep=None, ops=[tl.Resize((8, 8))])
    assert [images.tobytes() for images, *_ in grown] == [images.tobytes() for images, *_ in expected]
