"""Iterations read into memory that they use again, and never into memory that anybody still sees."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from trainload.errors import FormatError
from trainload.memory.aligned import HUGE_BYTES, LEAST_HUGE_BYTES, huge_buffer
from trainload.memory.pool import MemoryPool
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.storage.file import FileSource
from trainload.storage.reused import StepMemory

WINDOW_NS = 100
CAMERA_BYTES = 700_000


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 windows of 1.4 MB: large frames and small ones, whose every byte tells which frame it belongs to."""
    path = tmp_path_factory.mktemp("reused") / "drive.hfr"
    with HyperframeWriter(path, window=WINDOW_NS - 1) as writer:
        camera, imu = writer.add_stream("camera"), writer.add_stream("imu")
        for k in range(24):
            for n in range(2):
                writer.append(camera, k * WINDOW_NS + n, content(2 * k + n, CAMERA_BYTES))
            writer.append(imu, k * WINDOW_NS + 5, content(k, 96))
    return path


def content(number: int, size: int) -> bytes:
    return np.arange(number, number + size, dtype=np.uint32).astype(np.uint8).tobytes()


def is_whole(frame: tl.Frame, data: object) -> bool:
    return bytes(data) == content(frame.stream_index, len(frame.data))  # type: ignore[call-overload]


@settings(max_examples=10, deadline=None)
@given(kept=st.sets(st.integers(0, 71), max_size=30), how=st.sampled_from(["frame", "array", "view"]))
def test_frames_that_the_caller_keeps_stay_as_they_are(kept: set[int], how: str, drive: Path) -> None:
    held: list[tuple[tl.Frame, Any]] = []
    for place, frame in enumerate(tl.HyperframeReader(drive).frames()):
        assert is_whole(frame, frame.data)
        if place in kept:
            held.append(
                (
                    frame._replace(data=memoryview(b"x" * len(frame.data))),
                    {"frame": frame, "array": frame.array(), "view": frame.data[:]}[how],
                )
            )
    del frame
    assert all(is_whole(frame, value.data if how == "frame" else value) for frame, value in held)


def test_an_iteration_needs_few_buffers_where_nothing_is_kept(drive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(size: int) -> Any:
        made.append(size)
        return huge_buffer(size)

    monkeypatch.setattr("trainload.memory.pool.huge_buffer", counted)
    reader = tl.HyperframeReader(drive)
    assert sum(len(frame.data) for frame in reader.frames()) == 24 * (2 * CAMERA_BYTES + 96)
    assert 1 <= len(made) <= 3
    made.clear()
    assert len(list(reader.iter_range("camera", 0, 1 << 40))) == 48  # all kept
    assert len(made) > 6


SIZE = 1 << 20


def address(data: object) -> int:
    return np.frombuffer(data, np.uint8).ctypes.data  # type: ignore[call-overload]


def keep_tensor(array: np.ndarray) -> object:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(array).view(2, -1)[1].numpy()[5:]


@pytest.mark.parametrize(
    "keep",
    [
        lambda array: array,
        lambda array: array[10:20],
        lambda array: array[10:][5:].view(np.int8)[::2].reshape(-1, 1),
        lambda array: array.data[10:20],
        lambda array: np.frombuffer(array.data[10:20], np.uint8)[3:],
        lambda array: np.asarray(memoryview(array)[7:]).view(np.matrix),
        lambda array: [array[:1]] * 2,
        keep_tensor,
    ],
)
def test_a_block_is_lent_again_once_no_view_of_it_is_left(keep: Callable[[object], object]) -> None:
    pool = MemoryPool(4 * SIZE)
    array = pool.take(SIZE)
    place = array.ctypes.data
    view = keep(array)
    del array
    others = [pool.take(SIZE) for _ in range(3)]
    assert all(other.ctypes.data != place for other in others)
    del view
    assert pool.take(SIZE).ctypes.data == place


def test_a_lease_outlives_its_pool() -> None:
    pool = MemoryPool(4 * SIZE)
    array = pool.take(SIZE)
    array[:] = 7
    del pool
    assert MemoryPool(4 * SIZE).take(SIZE).ctypes.data != array.ctypes.data and (array == 7).all()


def test_a_block_that_the_pool_has_let_go_of_does_not_come_back() -> None:
    pool = MemoryPool(2 * SIZE)
    first, second, third = (pool.take(SIZE) for _ in range(3))
    places = {second.ctypes.data, third.ctypes.data}
    del first, second, third
    again = [pool.take(SIZE) for _ in range(2)]
    assert {array.ctypes.data for array in again} == places and pool.size_bytes == 2 * SIZE


def test_leases_that_end_on_other_threads_come_back() -> None:
    pool = MemoryPool(8 * SIZE)

    def work(n: int) -> bool:
        for k in range(50):
            array = pool.take(SIZE)
            array[:: SIZE - 1] = number = (50 * n + k) % 251
            if not (array[:: SIZE - 1] == number).all():
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert pool.size_bytes <= 5 * SIZE


def test_reads_are_aligned_and_exact_whatever_their_size(tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes(3 * LEAST_HUGE_BYTES)
    (tmp_path / "file").write_bytes(data)
    memory = StepMemory(2)
    with FileSource(tmp_path / "file") as source:
        for stretches in ([(0, 10), (100, 3_000_000)], [(7, 7)], [(1, 3 * LEAST_HUGE_BYTES)], [(5, 2_500_000)], []):
            parts = memory.read(source, stretches)
            assert [bytes(part) for part in parts] == [data[start:end] for start, end in stretches]
            assert all(np.frombuffer(part, np.uint8).ctypes.data % 64 == 0 for part in parts if len(part))


def test_a_stretch_past_the_end_is_a_format_error_and_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(bytes(1000))
    monkeypatch.setattr(StepMemory, "take", None)
    with FileSource(tmp_path / "file") as source, pytest.raises(FormatError, match="every byte"):
        StepMemory(2).read(source, [(0, 10), (500, 1 << 42)])


def test_huge_buffers_start_at_a_huge_page() -> None:
    for size in (1, LEAST_HUGE_BYTES + 1):
        buffer = huge_buffer(size)
        assert address(buffer) % HUGE_BYTES == 0 and len(buffer) % HUGE_BYTES == 0 and len(buffer) >= size
