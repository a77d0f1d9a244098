"""The cache and the chunks of recordings hold what they say, and give no memory away while somebody looks at it."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from drive_data import write_drive
from trainload.errors import FormatError
from trainload.memory.aligned import HUGE_BYTES, aligned_buffer
from trainload.memory.pool import SMALL_BYTES, MemoryPool
from trainload.recordings.samples.cache import ENTRY_BYTES, FrameCache
from trainload.recordings.samples.chunks import ChunkMemory, chunk_bounds
from trainload.recordings.samples.collate import collate
from trainload.storage.file import FileSource


def test_the_cache_holds_no_more_than_its_limit_and_forgets_the_oldest() -> None:
    entry = 30 + ENTRY_BYTES
    cache = FrameCache(3 * entry + 1)
    for n in range(5):
        cache.put((0, "s", n, 0), np.zeros(30, np.uint8))
    assert cache.size_bytes == 3 * entry
    assert [cache.get((0, "s", n, 0)) is not None for n in range(5)] == [False, False, True, True, True]
    assert cache.hit_rate == 0.6
    cache.put((0, "big", 0, 0), np.zeros(3 * entry, np.uint8))
    assert cache.get((0, "big", 0, 0)) is None and cache.size_bytes == 3 * entry


def test_a_cached_view_does_not_hold_the_read_that_it_came_from() -> None:
    cache = FrameCache(1 << 20)
    whole = aligned_buffer(100_000)
    alive = weakref.ref(whole.obj)
    cache.put((0, "s", 0, 0), np.frombuffer(whole[:1000], np.float32).reshape(-1, 2))
    del whole
    assert alive() is None
    kept = cache.get((0, "s", 0, 0))
    assert kept is not None and kept.shape == (125, 2) and not kept.flags.writeable


def test_chunk_memory_is_used_again_only_when_no_view_of_it_is_left(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(np.random.default_rng(0).bytes(6 << 20))
    memory = ChunkMemory(kept=2)
    with FileSource(path) as source:

        def read(start: int) -> np.ndarray:
            return np.frombuffer(memory.read(source, [(start, start + (2 << 20))])[0], np.uint8)

        first = read(64)
        place, expected = first.ctypes.data, first.copy()
        second = read(128)[1000:]
        assert np.array_equal(first, expected) and place % 64 == 0
        del first
        third = read(0)
        assert third.ctypes.data == place
        assert second.tobytes() == path.read_bytes()[1128 : 128 + (2 << 20)]


def test_a_stretch_past_the_end_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bytes").write_bytes(bytes(100))
    monkeypatch.setattr(MemoryPool, "take", lambda *_: pytest.fail("memory was taken"))
    with FileSource(tmp_path / "bytes") as source, pytest.raises(FormatError):
        ChunkMemory(2).read(source, [(0, 64), (64, 1 << 32)])


def test_chunks_cover_all_windows_in_order(tmp_path: Path) -> None:
    write_drive(tmp_path / "drive.hfr", seconds=2.0)
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        bounds = chunk_bounds(drive)
        assert bounds[0] == 0 and bounds[-1] == len(drive) and (np.diff(bounds) > 0).all()


def test_chunks_hold_no_unpacked_frames(tmp_path: Path) -> None:
    write_drive(tmp_path / "drive.hfr", seconds=1.0)
    dataset = tl.WindowDataset(tmp_path / "drive.hfr", streams=["lidar/top"])
    store = dataset.store.with_chunks(2)
    sweep = weakref.ref(store.window(0, 0)[0][2])
    assert sweep() is None
    assert store.window(0, 0)[0][2].nbytes == 4800


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 6 << 20), st.integers(0, 3)), max_size=30))
def test_memory_in_use_is_never_given_again_and_idle_memory_stays_below_the_limit(steps: list[tuple[int, int]]) -> None:
    memory = MemoryPool(16 << 20)
    held: dict[int, tuple[np.ndarray, int]] = {}
    for n, (size, place) in enumerate(steps):
        held.pop(place, None)
        part = memory.take(size)[: size // 2]  # a view keeps its buffer as well
        part[:] = n
        held[place] = part, n
        assert memory.size_bytes <= 16 << 20
        assert all((view == value).all() for view, value in held.values())


@pytest.mark.parametrize("size", [SMALL_BYTES + 200, (1 << 20) + 200, 5 << 20])
def test_idle_memory_of_about_the_size_is_taken_again(size: int) -> None:
    memory = MemoryPool(64 << 20)
    first = memory.take(size)
    place = first.ctypes.data
    assert len(first) == size and place % (HUGE_BYTES if size > 2 * HUGE_BYTES else 64) == 0
    assert memory.take(size).ctypes.data != place
    del first
    assert memory.take(size - 100).ctypes.data == place


def test_a_batch_that_is_kept_stays_as_it_is_while_others_reuse_their_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainload.memory.pool.SMALL_BYTES", 1)
    write_drive(tmp_path / "drive.hfr", seconds=4.0)
    dataset = tl.WindowDataset(tmp_path / "drive.hfr", streams=["lidar/top", "camera", "imu"])
    loader = tl.HyperframeLoader(dataset, batch_size=2, workers=3)
    places, kept = set(), []
    for epoch in range(3):
        for n, batch in enumerate(loader):
            places.add(batch.values["camera"].ctypes.data)
            if n % 4 == epoch:
                kept.append((batch.ids, {name: values[1:] for name, values in batch.values.items()}))
            del batch
    assert len(kept) > 10 and len(places) < 2 * len(loader)
    for ids, values in kept:
        again = collate([dataset[int(i)] for i in ids]).values
        assert all(np.array_equal(values[name], np.asarray(again[name])[1:], equal_nan=True) for name in values)
