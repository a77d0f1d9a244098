"""A damaged picture or block is an error that names it, or a counted replacement; never a wrong picture."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from loading_data import jpegs, write_dts, write_folder
from trainload.images.format import dts

COUNT, PER_BLOCK, BATCH = 40, 10, 8
DAMAGED = (5, 17, 18, 33)
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("errors") / "good.dts"
    return write_dts(where, jpegs(COUNT), [n % 4 for n in range(COUNT)], PER_BLOCK)


@pytest.fixture(scope="module")
def bad(tmp_path_factory) -> Path:
    pictures = jpegs(COUNT)
    for n in DAMAGED:
        pictures[n] = b"\xff\xd8 this is no picture" if n % 2 else pictures[n][: len(pictures[n]) // 2]
    where = tmp_path_factory.mktemp("errors") / "bad.dts"
    return write_dts(where, pictures, [n % 4 for n in range(COUNT)], PER_BLOCK)


def loader_of(path, **options):
    given = {"batch_size": BATCH, "ops": OPS, "with_ids": True, "workers": 2, "shuffle": "none"}
    return tl.ImageLoader(path, **{**given, **options})


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_a_damaged_picture_is_named(bad, mode):
    batches = iter(loader_of(bad, mode=mode))
    with pytest.raises(tl.SampleError) as caught:
        next(batches)
    error = caught.value
    assert (error.sample, error.block, error.path) == (5, 0, str(bad))
    assert error.reason
    assert pickle.loads(pickle.dumps(error)).sample == 5
    assert list(batches) == []


def test_batches_before_the_damaged_picture_come_first(bad):
    seen = []
    with pytest.raises(tl.SampleError, match="sample 17 in block 1"):
        for _, _, ids in loader_of(bad, indices=[*range(8), *range(16, 24)], ops=OPS, on_error="raise").subset(
            [0, 1, 2, 3, 4, 6, 7, 8, 17, 9]
        ):
            seen += ids.tolist()
    assert seen == [0, 1, 2, 3, 4, 6, 7, 8]


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    folder = write_folder(tmp_path, [*jpegs(3), b"nothing"], [0, 0, 1, 1])
    with pytest.raises(tl.SampleError, match=r"sample 3.*00003\.JPEG"):
        next(iter(loader_of(folder)))


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_replacements_are_good_pictures_of_the_batch_and_are_counted(good, bad, mode, threads):
    loader = loader_of(bad, on_error="replace", mode=mode, workers=threads)
    for replaced, whole in zip(loader, loader_of(good), strict=True):
        first = int(whole[2][0])
        expected = np.arange(first, first + BATCH)
        for n in (n - first for n in DAMAGED if first <= n < first + BATCH):
            expected[n] = {5: 6, 17: 19, 18: 19, 33: 34}[first + n]
        assert replaced[2].tolist() == expected.tolist()
        rows = expected - first
        assert np.array_equal(replaced[0], whole[0][rows])  # bit for bit what that sample is without the damaged one
        assert np.array_equal(replaced[1], whole[1][rows])
    assert loader.stats.replaced == len(DAMAGED)
    assert loader.stats.last_replaced.sample in DAMAGED


def test_good_pictures_beside_a_damaged_one_are_bit_equal_to_themselves(good, bad):
    loader = loader_of(bad, on_error="replace", out="float32", shuffle="full")
    reference = loader_of(good, out="float32", shuffle="full")
    for mine, other in zip(loader, reference, strict=True):
        same = mine[2] == other[2]
        assert same.sum() >= BATCH - 2
        assert np.array_equal(mine[0][same], other[0][same])


def test_a_batch_of_damaged_pictures_takes_the_next_good_sample(bad):
    loader = loader_of(bad, on_error="replace", batch_size=1, indices=[17, 18, 33, 2, 5])
    assert [int(ids[0]) for _, _, ids in loader.subset([17, 18, 2])] == [2, 2, 2]
    with pytest.raises(tl.SampleError):
        list(loader.subset([2, 5]))  # nothing good follows


def damaged_byte(good: Path, where: Path, offset: int) -> Path:
    where.write_bytes(good.read_bytes())
    with where.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    return where


@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("on_error", ["raise", "replace"])
def test_a_block_whose_bytes_changed_is_named_with_its_file(good, tmp_path, mode, on_error):
    path = damaged_byte(good, tmp_path / "flipped.dts", offset=3 * (16 << 20) + 15_000_000)
    loader = loader_of(path, mode=mode, on_error=on_error)
    seen = []
    with pytest.raises(tl.FormatError, match=r"CRC-32.*block 2.*flipped\.dts"):
        for _, _, ids in loader:
            seen += ids.tolist()
    assert seen == list(range(16))
    seen = [i for _, _, ids in loader_of(path, mode=mode, verify="none") for i in ids]
    assert seen == list(range(COUNT))  # the byte lies in no picture


def test_a_file_without_block_sums_is_read_all_the_same(tmp_path):
    path = write_dts(tmp_path / "genuine.dts", jpegs(12), [0] * 12, 5, crcs=False)
    assert sum(len(ids) for _, _, ids in loader_of(path)) == 12


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_a_file_that_shrinks_while_it_is_read_is_an_error(good, tmp_path, mode):
    path = tmp_path / "shrinks.dts"
    path.write_bytes(good.read_bytes())
    loader = loader_of(path, mode=mode)
    with path.open("r+b") as file:
        file.truncate(40 << 20)
    with pytest.raises(tl.FormatError, match="must hold every byte"):
        list(loader)


def test_a_file_of_a_folder_that_changed_its_size_is_an_error(tmp_path):
    folder = write_folder(tmp_path, jpegs(4), [0, 0, 1, 1])
    loader = loader_of(folder)
    (folder / "class001/00003.JPEG").write_bytes(b"short")
    with pytest.raises(tl.SampleError, match=r"sample 3: .*keep its size.*00003\.JPEG"):
        list(loader)


FLIPPED = 17  # a bit in the middle of this picture, which decodes all the same


@pytest.fixture(scope="module")
def summed(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("sums") / "summed.dts"
    return write_dts(where, jpegs(COUNT), [n % 4 for n in range(COUNT)], PER_BLOCK, picture_crcs=True)


@pytest.fixture(scope="module")
def flipped(summed) -> Path:
    with tl.DtsReader(summed) as ds:
        at = ds.headers[0].header_bytes + int(ds.offsets[FLIPPED]) + int(ds.sizes[FLIPPED]) * 3 // 4
    return damaged_byte(summed, summed.with_name("flipped.dts"), at)


def genuine(path: Path, where: Path) -> Path:
    """The same file without an extension."""
    data = bytearray(path.read_bytes())
    data[dts.EXTENSION_OFFSET : dts.EXTENSION_OFFSET + dts.EXTENSION_HEAD_BYTES] = bytes(dts.EXTENSION_HEAD_BYTES)
    where.write_bytes(data)
    return where


PARTS: dict[str, Any] = {
    "some samples": {"indices": [3, 16, FLIPPED, 33]},
    "one rank of two": {"rank": 0, "world_size": 2, "batch_size": 4},
    "whole blocks": {},
}
BY_CHECKSUM = r"sample 17 in block 1 \(from 1/17\.JPEG\): a picture's CRC-32.*flipped\.dts"


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_a_flipped_bit_in_a_picture_names_file_block_sample_and_source(flipped, mode, part):
    with pytest.raises(tl.SampleError, match=BY_CHECKSUM):
        list(loader_of(flipped, mode=mode, **PARTS[part]))
    assert list(loader_of(flipped, mode=mode, verify="none", **PARTS[part]))  # no decoder notices it


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_a_picture_with_a_flipped_bit_is_replaced_the_same_in_whole_and_partly_read_blocks(summed, flipped, mode, part):
    loader = loader_of(flipped, mode=mode, on_error="replace", **PARTS[part])
    for found, good in zip(loader, loader_of(summed, **PARTS[part]), strict=True):
        ids = good[2].tolist()
        rows = [ids.index(FLIPPED) + 1 if i == FLIPPED else n for n, i in enumerate(ids)]
        assert all(np.array_equal(mine, other[rows]) for mine, other in zip(found, good, strict=True))
    assert loader.stats.replaced == 1
    assert "CRC-32" in loader.stats.last_replaced.reason


def test_a_batch_at_once_is_checked_too(summed, flipped):
    with pytest.raises(tl.SampleError, match=BY_CHECKSUM):
        loader_of(flipped).batch([3, FLIPPED])
    found = loader_of(flipped, on_error="replace").batch([3, FLIPPED])
    assert np.array_equal(found[0], loader_of(summed).batch([3, 3])[0])
    assert len(loader_of(flipped, verify="none").batch([3, FLIPPED])[0]) == 2


def test_single_reads_are_checked(flipped):
    with tl.DtsReader(flipped) as ds:
        for read in (lambda: ds[FLIPPED], lambda: ds.samples([3, FLIPPED, 30])):
            with pytest.raises(tl.FormatError, match=r"sample 17 in block 1 \(from 1/17\.JPEG\).*flipped\.dts"):
                read()
        assert [sample.id for sample in ds.samples([16, 18])] == [16, 18]


def test_a_genuine_file_carries_no_sums_to_check(flipped, tmp_path):
    path = genuine(flipped, tmp_path / "genuine.dts")
    with tl.DtsReader(path) as ds:
        assert (ds.block_crcs, ds.picture_crcs) == (None, None)
        assert ds[FLIPPED].id == FLIPPED
    assert sum(len(ids) for _, _, ids in loader_of(path, indices=[3, FLIPPED])) == 2
