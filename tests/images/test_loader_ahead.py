"""The first buffer of the next epoch fills while this one ends; whatever comes instead is read and exact."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from loading_data import counted, jpegs, write_dts

BLOCKS, PER_BLOCK, BATCH = 6, 10, 4
OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("ahead") / "set.dts"
    return write_dts(where, jpegs(BLOCKS * PER_BLOCK), [n % 4 for n in range(BLOCKS * PER_BLOCK)], PER_BLOCK)


def loader_of(path, **options):
    given = {"batch_size": BATCH, "ops": OPS, "with_ids": True, "workers": 2, "mode": "partial"}
    return tl.ImageLoader(path, **{**given, "group_blocks": 2, "tuning": tl.Tuning(io_workers=2), **options})


def read_ahead(loader):
    """Take an epoch's batches and wait until the next one's first buffer is full. The iterator, not yet at its end."""
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    run, deadline = iterator._run, time.monotonic() + 20
    segments = len(run._plan.segments) - 1
    while segments not in run.feed._fills or not run.feed._fills[segments][0].arrived.all():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return iterator


def check_epoch(loader, epoch: int) -> None:
    """The loader's next epoch is `epoch`, complete, in order, with the right pictures."""
    found = list(loader)
    assert np.concatenate([ids for *_, ids in found]).tolist() == loader.epoch_ids(epoch).tolist()
    for images, labels, ids in found:
        expected = loader.batch(ids, epoch=epoch)
        assert np.array_equal(images, expected[0])
        assert np.array_equal(labels, expected[1])


def first_blocks(loader, epoch: int) -> list[int]:
    return sorted({int(i) // PER_BLOCK for i in loader.epoch_ids(epoch)[: 2 * PER_BLOCK]})


@pytest.mark.parametrize("ends", ["by its end", "by a break"])
def test_what_was_read_ahead_is_not_read_again(path, ends):
    loader = loader_of(path)
    log = counted(loader)
    iterator = read_ahead(loader)
    if ends == "by its end":
        assert list(iterator) == []
    del iterator
    ahead = Counter(unit for unit, *_ in log) - Counter(range(BLOCKS))
    assert sorted(ahead.elements()) == first_blocks(loader, 1)
    del log[:]
    for images, _, ids in loader:
        assert np.array_equal(images, loader.batch(ids, epoch=1)[0])
        break
    assert not {unit for unit, _, size in log if size == 16 << 20} & set(first_blocks(loader, 1))


def test_the_second_window_waits_for_the_first_batch(path):
    finished, go_on = threading.Event(), threading.Event()

    def hold(images, labels):
        finished.set()
        go_on.wait(20)
        return images, labels

    loader = loader_of(path, ops=[*OPS, hold], workers=1)
    log = counted(loader)
    iterator = iter(loader)
    assert finished.wait(20)
    time.sleep(0.05)
    assert sorted(unit for unit, *_ in log) == first_blocks(loader, 0)
    go_on.set()
    assert len(list(iterator)) == len(loader)


def test_a_rank_reads_ahead_its_own_samples_alone(path):
    loader = loader_of(path, rank=1, world_size=3, last="drop")
    log = counted(loader)
    read_ahead(loader)
    asked = loader._planner_of(loader._cut.find()).plan(loader._rule, 1, 0, loader._pair.size_bytes).stream.tolist()
    sizes = tl.DtsReader(path).sizes
    assert sum(size for *_, size in log) <= 3 * sizes.sum()  # of 16 MB blocks
    assert [int(i) for *_, ids in loader for i in ids] == asked


@pytest.mark.parametrize("blocks", [1, 2, 3, 8])
def test_epochs_are_exact_for_any_number_of_segments(path, blocks):
    loader = loader_of(path, group_blocks=blocks, tuning=tl.Tuning(io_workers=1))
    for epoch in range(4):
        check_epoch(loader, epoch)


def test_another_epoch_another_seed_and_another_order_are_read_anew(path):
    loader = loader_of(path)
    read_ahead(loader)
    loader.set_epoch(7)
    check_epoch(loader, 7)
    read_ahead(loader)
    loader.load_state_dict({**loader.state_dict(), "epoch": 9, "position": 0, "seed": 5})
    check_epoch(loader, 9)
    read_ahead(loader)
    loader.load_state_dict({**loader.state_dict(), "epoch": 11, "position": 0, "shuffle": "none"})
    check_epoch(loader, 11)


def test_a_position_in_the_middle_of_the_next_epoch_is_exact(path):
    loader = loader_of(path)
    read_ahead(loader)
    loader.load_state_dict({**loader.state_dict(), "epoch": 1, "position": 12})
    assert [i for *_, ids in loader for i in ids] == loader.epoch_ids(1)[12:].tolist()
    check_epoch(loader, 2)


def test_iterators_that_take_turns_at_the_end_of_an_epoch_are_exact(path):
    loader = loader_of(path)
    iterators = [iter(loader) for _ in range(3)]
    found: list[list[int]] = [[], [], []]
    for batches in zip(*iterators, strict=True):
        for seen, (*_, ids) in zip(found, batches):
            seen += ids.tolist()
    assert found == [loader.epoch_ids(epoch).tolist() for epoch in range(3)]
    check_epoch(loader, 3)


def test_a_loader_closed_at_the_end_of_its_epoch_keeps_nothing(path):
    loader = loader_of(path)
    iterator = read_ahead(loader)
    pair = loader._pair
    loader.close()
    assert pair._arenas
    assert list(iterator) == []
    assert not pair._arenas
    assert pair._kept is None


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("running", [False, True])
def test_a_forked_child_goes_on_exactly(path, running):
    loader = loader_of(path)
    iterator = read_ahead(loader)
    if not running:
        assert list(iterator) == []
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            check_epoch(loader, 1)
            os.write(writer, b"exact")
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "exact"
    os.waitpid(child, 0)
    check_epoch(loader, 1)


def test_a_block_found_damaged_ahead_is_an_error_of_its_own_epoch(path, tmp_path):
    where = tmp_path / "late.dts"
    where.write_bytes(path.read_bytes())
    loader = loader_of(where, shuffle="none")
    iterator = iter(loader)
    next(iterator)  # block 0 was read
    with where.open("r+b") as file:
        file.seek(loader.dataset.headers[0].header_bytes + 15_000_000)
        file.write(b"?")
    assert len(list(iterator)) == len(loader) - 1
    with pytest.raises(tl.FormatError, match=r"CRC-32.*block 0.*late\.dts"):
        list(loader)


def test_the_last_epoch_that_an_order_can_name_has_no_next_one(path):
    loader = loader_of(path)
    loader.set_epoch(2**32 - 1)
    assert np.concatenate([ids for *_, ids in loader]).tolist() == loader.epoch_ids(2**32 - 1).tolist()
