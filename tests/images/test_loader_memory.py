"""A loader reads what it says, where it says, in the memory that it says."""

from __future__ import annotations

import gc
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from loading_data import counted, jpegs, write_dts, write_folder
from trainload.images.loading.layout import buffer_segments, plan_reads
from trainload.images.loading.modes import choose_mode
from trainload.images.loading.picture_sets import FolderPictures, Places
from trainload.images.loading.planning import Planner, Workforce
from trainload.machine.cpus import usable_cpus
from trainload.memory.limits import MemoryLimit, memory_limit
from trainload.running.order import Cut, OrderRule
from trainload.running.selection import select

MB = 1 << 20
needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to see memory in")
OPS = [tl.RandomResizedCrop(16)]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("memory") / "set.dts"
    return write_dts(where, jpegs(60), [n % 4 for n in range(60)], 10)


def loader_of(path, **options):
    return tl.ImageLoader(path, **{"batch_size": 4, "ops": OPS, "with_ids": True, "workers": 2, **options})


# The plan of reads


def places_of(sizes_per_unit: list[list[int]]) -> Places:
    """Units with these samples, one after the other after a head of 100 bytes, and a tail of 1,000."""
    unit, start, size, unit_sizes = [], [], [], []
    for k, sizes in enumerate(sizes_per_unit):
        at = 100
        for one in sizes:
            unit.append(k)
            start.append(at)
            size.append(one)
            at += -(-one // 64) * 64
        unit_sizes.append(at + 1000)
    arrays = [np.array(a, np.int64) for a in (unit, start, size, unit_sizes, [len(s) for s in sizes_per_unit])]
    return Places(*arrays)


UNITS = st.lists(st.lists(st.integers(0, 200_000), max_size=8), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(UNITS, st.data())
def test_a_read_plan_brings_every_sample_to_its_place(units, data):
    places = places_of(units)
    total = len(places.unit)
    if data.draw(st.booleans()):  # a writer may list a block's samples in another order than they lie
        backwards = np.lexsort((-places.start, places.unit))
        places = places._replace(start=places.start[backwards], size=places.size[backwards])
    ids = np.array(data.draw(st.lists(st.integers(0, total - 1), max_size=30)) if total else [], np.int64)
    limit = data.draw(st.sampled_from([None, int((-(-places.size[ids] // 64) * 64).sum())]))
    plan = plan_reads(places, ids, limit_bytes=limit)
    assert plan.ids.tolist() == sorted(set(ids.tolist()))
    reads = plan.read_of[plan.find(ids)]
    assert (plan.units[reads] == places.unit[ids]).all()
    shift = plan.offsets[plan.find(ids)].astype(np.int64) - plan.place[reads]
    assert (plan.starts[reads] + shift == places.start[ids]).all()
    assert (shift + places.size[ids] <= plan.sizes[reads]).all()
    assert (plan.starts + plan.sizes <= places.unit_sizes[plan.units]).all()
    assert (np.diff(plan.place) >= plan.sizes[:-1]).all()
    assert plan.size_bytes >= (plan.place + plan.sizes).max(initial=0)
    if limit is not None:
        assert plan.size_bytes <= limit


@settings(max_examples=150, deadline=None)
@given(UNITS, st.integers(1, 3), st.integers(0, 2**30), st.booleans())
def test_segments_cut_the_stream_into_parts_that_fit(units, group_units, seed, shuffled):
    places = places_of(units)
    ids = np.arange(len(places.unit))
    if shuffled:
        ids = np.random.default_rng(seed).permutation(ids)
    limit = int(places.unit_sizes.max() + 64) * group_units
    groups = places.unit[ids] // group_units
    bounds = buffer_segments(places, ids, groups, limit)
    assert bounds[0] == 0
    assert bounds[-1] == len(ids)
    assert (np.diff(bounds) > 0).all()
    for first, end in pairwise(bounds):
        assert plan_reads(places, ids[first:end], limit_bytes=limit).size_bytes <= limit
        if not shuffled:
            assert plan_reads(places, ids[first:end], limit_bytes=limit).whole.all()


def test_fully_reads_each_block_once_and_then_never_again(path):
    loader = loader_of(path, mode="fully")
    log = counted(loader)
    for _ in range(3):
        for _ in loader:
            pass
    assert sorted(log) == [(k, 0, 16 * MB) for k in range(6)]


def test_fully_reads_blocks_in_the_order_of_need(path):
    loader = loader_of(path, mode="fully", shuffle="group", group_blocks=2, tuning=tl.Tuning(io_workers=1))
    log = counted(loader)
    for _ in loader:
        pass
    needed = list(dict.fromkeys(int(i) // 10 for i in loader.epoch_ids(0)))
    assert [unit for unit, *_ in log] == needed


def test_files_of_a_folder_are_read_in_the_order_of_need(tmp_path, monkeypatch):
    folder = write_folder(tmp_path, jpegs(30), sorted(n % 5 for n in range(30)))
    loader, log = loader_of(folder, mode="partial", tuning=tl.Tuning(io_workers=1)), []
    read = FolderPictures.read

    def noted(files, unit, *rest):
        log.append(unit)
        read(files, unit, *rest)

    monkeypatch.setattr(FolderPictures, "read", noted)
    iterator = iter(loader)
    assert sum(len(ids) for _, _, ids in iterator) == 30
    assert log[:30] == loader.epoch_ids(0).tolist()


def test_partial_reads_each_block_once_per_epoch(path):
    loader = loader_of(path, mode="partial", group_blocks=2, tuning=tl.Tuning(io_workers=2))
    log = counted(loader)
    for _ in range(2):
        for _ in loader:
            pass
    reads = Counter(log)
    ahead = reads - Counter([(k, 0, 16 * MB) for k in range(6)] * 2)
    assert reads - ahead == Counter([(k, 0, 16 * MB) for k in range(6)] * 2)
    next_group = {int(i) // 10 for i in loader.epoch_ids(2)[:20]}
    assert ahead <= Counter([(k, 0, 16 * MB) for k in next_group])


def test_loaders_that_share_buffers_read_nothing_ahead(path):
    loader = loader_of(path, mode="partial", group_blocks=2, tuning=tl.Tuning(io_workers=2, buffers=tl.BufferPair()))
    log = counted(loader)
    for _ in range(2):
        for _ in loader:
            pass
    assert sorted(log) == sorted([(k, 0, 16 * MB) for k in range(6)] * 2)


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_a_rank_reads_only_the_bytes_of_its_samples(path, mode):
    loader = loader_of(
        path, mode=mode, rank=1, world_size=3, last="drop", verify="none", tuning=tl.Tuning(buffers=tl.BufferPair())
    )
    log = counted(loader)
    ids = np.concatenate([ids for _, _, ids in loader])
    sizes = tl.DtsReader(path).sizes
    assert sum(size for *_, size in log) <= sizes[ids].sum() + len(ids) * 64 + len(log) * 1024 * 10
    assert sum(size for *_, size in log) < MB


def test_fully_never_reads_what_a_rank_has_already(path):
    loader = loader_of(path, mode="fully", rank=0, world_size=3)
    log = counted(loader)
    needed: set[int] = set()
    for _ in range(6):
        before = len(log)
        new = {int(i) for _, _, ids in loader for i in ids} - needed
        needed |= new
        assert bool(new) == (len(log) > before)
    assert loader.stats.read_bytes < 2 * int(tl.DtsReader(path).sizes.sum())


@pytest.mark.parametrize("batch_size", [1, 37, 60, 200])
def test_batches_may_be_larger_than_the_buffers(path, batch_size):
    loader = loader_of(path, mode="partial", batch_size=batch_size, group_blocks=1, tuning=tl.Tuning(io_workers=1))
    for _ in range(2):
        epoch = loader.epoch
        assert np.array_equal(np.concatenate([ids for _, _, ids in loader]), loader.epoch_ids(epoch))


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_no_samples_make_no_batches(path, mode):
    loader = loader_of(path, mode=mode, indices=[])
    assert (len(loader), list(loader), loader.state_dict()["epoch"]) == (0, [], 1)


# Modes


def test_auto_takes_fully_up_to_half_of_the_memory_and_says_why():
    limit = MemoryLimit(1000 * MB, "control group")
    fully, partial = choose_mode("auto", 500 * MB, limit), choose_mode("auto", 500 * MB + 1, limit)
    assert (fully.mode, partial.mode) == ("fully", "partial")
    assert "control group" in partial.reason
    assert choose_mode("auto", 300 * MB, limit, processes=2).mode == "partial"
    with pytest.raises(tl.UsageError, match="mode"):
        choose_mode("half", 1, limit)  # type: ignore[arg-type]


def fake_machine(root: Path, cgroup: str, values: dict[str, str]) -> tuple[Path, Path]:
    """The folders /proc and /sys/fs/cgroup of a machine with these control groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, value in values.items():
        file = root / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value + "\n")
    return root / "proc", root / "sys"


@pytest.mark.parametrize(
    "cgroup, limits",
    [
        ("0::/job/step\n", {"job/memory.max": "268435456", "job/step/memory.max": "max"}),
        ("0::/job/step\n", {"job/memory.max": "max", "job/step/memory.max": "268435456"}),
        ("0::/../host/path\n", {"memory.max": "268435456"}),
        ("0::/\n5:cpu:/\n4:memory:/job\n", {"memory/job/memory.limit_in_bytes": "268435456"}),
        ("4:cpu,memory:/host/path\n", {"memory/memory.limit_in_bytes": "268435456"}),
    ],
)
def test_the_limit_of_a_control_group_counts(tmp_path, cgroup, limits):
    assert memory_limit(*fake_machine(tmp_path, cgroup, limits)).size_bytes == 256 * MB


def test_without_a_limit_the_machine_is_the_limit(tmp_path):
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    unlimited = {"memory/job/memory.limit_in_bytes": "9223372036854771712"}
    assert memory_limit(*fake_machine(tmp_path, "4:memory:/job\n", unlimited)).size_bytes <= whole
    assert memory_limit(tmp_path / "none", tmp_path / "none").size_bytes <= whole


@pytest.mark.parametrize(
    "cgroup, values",
    [
        ("0::/job\n", {"job/cpu.max": "100000 100000"}),
        ("0::/job\n", {"job/cpu.max": "max 100000", "cpu.max": "20000 25000"}),
        ("3:cpu,cpuacct:/job\n", {"cpu/job/cpu.cfs_quota_us": "100000"}),
    ],
)
def test_a_cpu_quota_counts(tmp_path, cgroup, values):
    assert usable_cpus(*fake_machine(tmp_path, cgroup, values)) == 1


def test_without_a_quota_every_allowed_cpu_counts(tmp_path):
    machine = fake_machine(tmp_path, "3:cpu:/job\n", {"cpu/job/cpu.cfs_quota_us": "-1"})
    assert usable_cpus(*machine) == usable_cpus(tmp_path / "none", tmp_path / "none")


def test_auto_follows_the_limit(path, monkeypatch):
    limit = MemoryLimit(100 * MB, "control group")
    monkeypatch.setattr("trainload.images.loading.image_loader.memory_limit", lambda: limit)
    loader = loader_of(path)
    assert (loader.mode, loader.shuffle) == ("partial", "group")
    assert "control group" in loader.mode_reason


# Memory


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_memory_stays_within_the_plan(path, mode):
    for _ in loader_of(path, mode=mode):  # whatever Python needs once
        pass
    gc.collect()
    before = resident_bytes()
    loader = loader_of(path, mode=mode, ops=[tl.RandomResizedCrop(224)], group_blocks=2, tuning=tl.Tuning(io_workers=1))
    highest = before
    for _ in range(2):
        for _ in loader:
            highest = max(highest, resident_bytes())
    plan = loader.memory_plan()
    assert highest - before <= plan.total_bytes
    assert all(name in str(plan) for name in plan.buffers)


@needs_proc
def test_buffers_go_when_the_loader_is_closed(path):
    loader = loader_of(path, mode="partial", group_blocks=4, tuning=tl.Tuning(io_workers=2))
    for _ in loader:
        pass
    before = resident_bytes()
    loader.close()
    assert before - resident_bytes() > 50 * MB


def test_two_loaders_that_share_buffers_take_turns_exactly(path):
    pair = tl.BufferPair()
    options = {"mode": "partial", "group_blocks": 2, "tuning": tl.Tuning(io_workers=1, buffers=pair)}
    train = loader_of(path, **options)
    val = loader_of(path, shuffle="none", **options)
    by_itself = loader_of(path, mode="partial", group_blocks=2, tuning=tl.Tuning(io_workers=1))
    found, alone = [], [ids.tolist() for _, _, ids in by_itself]
    for n, (_, _, ids) in enumerate(train):
        found.append(ids.tolist())
        if n % 5 == 2:  # validation in the middle of the epoch takes the buffers over
            assert [i for _, _, ids in val for i in ids] == list(range(60))
    assert found == alone
    assert "buffer A (shared)" in train.memory_plan().buffers
    assert pair.size_bytes == 32 * MB


def test_a_folder_and_the_file_made_of_it_give_the_same_bits(tmp_path):
    pictures, labels = jpegs(30), sorted(n % 5 for n in range(30))
    folder = write_folder(tmp_path / "folder", pictures, labels)
    file = write_dts(tmp_path / "set.dts", pictures, labels, 11)
    for mode in ("fully", "partial"):
        for a, b in zip(loader_of(folder, mode=mode, shuffle="full"), loader_of(file, shuffle="full"), strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(a, b))


def test_large_pictures_are_taken_in_small_slices():
    for size, expected in ((1_000, 16), (200_000, 10), (5_000_000, 1)):
        places = places_of([[size] * 100])
        selection = select(100, places.unit, None, None)
        force = Workforce(workers=2, io_workers=2, prefetch=3, verify=True)
        planner = Planner(selection, Cut(64), force, places=places, has_blocks=False)
        assert planner.plan(OrderRule(0, "full", 8), 0, 0, None).slice_size == expected
