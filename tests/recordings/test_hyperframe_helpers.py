"""Frames that helpers unpack ahead of a loop are those of a plain loop, in its order, with its errors, and no more."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload.errors import FormatError, UsageError
from trainload.recordings.format.hyperframe import CODEC_MASK
from trainload.recordings.reading import frame as frame_module
from trainload.recordings.reading import hyperframe as hyperframe_module
from trainload.recordings.reading import window as window_module
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.running.helpers import AHEAD, Helpers

WINDOWS = 12
STEP_NS = 100_000_000
END_NS = 1 << 60
Found = list[tuple[str, int, bytes]]


@pytest.fixture(autouse=True, scope="module")
def every_compressed_frame_takes_long() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (window_module, hyperframe_module):
            patch.setattr(module, "takes_long", lambda flags, size: bool(flags & CODEC_MASK))
        yield


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """StreamIndex of every frame that was unpacked, as it happens."""
    numbers: list[int] = []
    unpack = frame_module._unpack

    def counted(entry: Any, *rest: Any) -> memoryview:
        numbers.append(entry[2])
        return unpack(entry, *rest)

    monkeypatch.setattr(frame_module, "_unpack", counted)
    return numbers


def write(path: Path, codecs: dict[str, str], per_window: int = 1, windows: int = WINDOWS) -> Path:
    """A recording of streams with a codec each: `per_window` frames per stream and window of STEP_NS."""
    rng = np.random.default_rng(5)
    with HyperframeWriter(path, window=STEP_NS - 1) as writer:
        ids = {name: writer.add_stream(name, dtype="<f4", codec=codec, shuffle=True) for name, codec in codecs.items()}
        for k in range(windows):
            for n in range(per_window):
                for name, stream in ids.items():
                    data = np.cumsum(rng.normal(0, 0.01, int(rng.integers(50, 3000)))).astype("<f4").round(2)
                    writer.append(stream, k * STEP_NS + n * STEP_NS // per_window // 2 + ids[name], data)
    return path


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("ahead") / "drive.hfr", {"a": "zstd", "b": "lz4", "c": "none"}, per_window=3)


def helper_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("trainload-unpack")]


def by_frames(reader: HyperframeReader) -> Found:
    return [(frame.stream, frame.timestamp_ns, bytes(frame.data)) for frame in reader.frames()]


def by_windows(reader: HyperframeReader) -> Found:
    """Other streams from window to window, so that what was begun is not always what is asked for."""
    names = list(reader.streams)
    return [
        (frame.stream, frame.timestamp_ns, bytes(frame.data))
        for window in reader
        for name in names[window.number % 3 :]
        for frame in window[name]
    ]


def by_stream(reader: HyperframeReader) -> Found:
    return [
        (name, frame.timestamp_ns, bytes(frame.data))
        for name in reader.streams
        for frame in reader.iter_range(name, 0, END_NS)
    ]


@pytest.mark.parametrize("read", [by_frames, by_windows, by_stream])
@pytest.mark.parametrize("helpers", [1, 3, None])
def test_an_iteration_gives_the_same_frames_with_helpers_and_without(
    read: Callable[[HyperframeReader], Found], helpers: int | None, drive: Path
) -> None:
    assert read(HyperframeReader(drive, helpers=helpers)) == read(HyperframeReader(drive, helpers=0))


@settings(max_examples=15, deadline=None)
@given(
    codecs=st.lists(st.sampled_from(["zstd", "lz4", "none"]), min_size=1, max_size=3),
    per_window=st.integers(1, 4),
    windows=st.integers(1, 9),
    helpers=st.integers(0, 3),
)
def test_any_recording_reads_the_same_with_any_number_of_helpers(
    codecs: list[str], per_window: int, windows: int, helpers: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    streams = {f"s{n}": codec for n, codec in enumerate(codecs)}
    path = write(tmp_path_factory.mktemp("any") / "drive.hfr", streams, per_window, windows)
    alone, helped = HyperframeReader(path, helpers=0), HyperframeReader(path, helpers=helpers)
    for read in (by_frames, by_windows, by_stream):
        assert read(helped) == read(alone)
    assert sorted(by_frames(alone)) == sorted(
        (name, frame.timestamp_ns, bytes(frame.data))
        for name in alone.streams
        for position in range(alone.count(name))
        for frame in [alone.read_at_index(name, position)]
    )


def test_a_damaged_frame_is_an_error_at_its_place(drive: Path, tmp_path: Path) -> None:
    data = bytearray(drive.read_bytes())
    entry = HyperframeReader(drive).files[0].index[20]  # of stream a, window 6
    data[int(entry["byte_offset"])] ^= 1
    (tmp_path / "bad.hfr").write_bytes(data)
    for read in (HyperframeReader.frames, lambda reader: reader.iter_range("a", 0, END_NS)):
        given_before = []
        for helpers in (0, 2):
            frames = read(HyperframeReader(tmp_path / "bad.hfr", helpers=helpers))
            times: list[int] = []
            with pytest.raises(FormatError, match="CRC-32 of frame 20 of stream a"):
                for frame in frames:
                    times.append(frame.timestamp_ns)
            given_before.append(times)
        assert given_before[0] == given_before[1] and len(times) > 15
    assert helper_threads() == []


def test_no_thread_outlives_an_iteration_that_ends_breaks_or_is_dropped(drive: Path) -> None:
    reader = HyperframeReader(drive, helpers=2)
    assert len(list(reader.frames())) == 3 * 3 * WINDOWS
    assert helper_threads() == []
    for iterate in (reader.frames, lambda: reader.iter_range("a", 0, END_NS)):
        iterator = iterate()
        next(iterator)
        assert len(helper_threads()) == 2
        del iterator
        gc.collect()
        assert helper_threads() == []


def test_uncompressed_streams_start_no_thread(tmp_path: Path) -> None:
    path = write(tmp_path / "plain.hfr", {"a": "none", "b": "none"})
    for _ in HyperframeReader(path, helpers=2).frames():
        assert helper_threads() == []


def test_only_streams_that_the_caller_takes_are_unpacked(drive: Path, unpacked: list[int]) -> None:
    for window in HyperframeReader(drive, helpers=2):
        assert window["b"]
    assert sorted(unpacked) == list(range(3 * WINDOWS))  # those of b, each once
    unpacked.clear()
    for _ in HyperframeReader(drive, helpers=2):
        pass
    assert unpacked == []


def test_helpers_are_never_more_than_a_few_windows_ahead(tmp_path: Path, unpacked: list[int]) -> None:
    path = write(tmp_path / "long.hfr", {"a": "zstd"}, windows=40)
    reader = HyperframeReader(path, helpers=3)
    for iterator in (reader.frames(), reader.iter_range("a", 0, END_NS)):
        unpacked.clear()
        for taken, _ in enumerate(iterator, 1):
            time.sleep(0.002)  # as long as all that may be done is done
            assert max(unpacked) <= taken + AHEAD


def test_a_window_that_helpers_hold_serves_many_threads(drive: Path) -> None:
    windows = HyperframeReader(drive, helpers=2).windows.between(None, None, take=("a", "b"))
    with ThreadPoolExecutor(8) as pool:
        for window in windows:
            found = [pool.submit(window.__getitem__, name) for name in ("a", "b") * 4]
            times = {tuple(frame.timestamp_ns for frame in each.result()) for each in found}
            assert len(times) == 2


def test_windows_of_an_iteration_that_was_left_can_still_be_read(drive: Path) -> None:
    iterator = HyperframeReader(drive, helpers=2).windows.between(None, None, take=("a",))
    windows = [next(iterator), next(iterator)]
    del iterator
    gc.collect()
    assert [frame.timestamp_ns // STEP_NS for window in windows for frame in window["a"]] == [0] * 3 + [1] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_goes_on_with_the_iteration_of_its_parent(drive: Path) -> None:
    reader = HyperframeReader(drive, helpers=2)
    expected = len(by_frames(reader))
    frames = reader.frames()
    next(frames)
    child = os.fork()
    if not child:
        os._exit(0 if sum(1 for _ in frames) == expected - 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(1 for _ in frames) == expected - 1


def test_the_number_of_helpers_is_checked_and_pickled(drive: Path) -> None:
    with pytest.raises(UsageError, match="helpers"):
        HyperframeReader(drive, helpers=-1)
    reader = pickle.loads(pickle.dumps(HyperframeReader(drive, helpers=0)))
    for _ in reader.frames():
        assert helper_threads() == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-3, 9), max_size=30), st.integers(0, 3))
def test_a_map_is_that_of_a_plain_loop(items: list[int], threads: int) -> None:
    def root(item: int) -> float:
        if item < 0:
            raise ValueError(item)
        return item**0.5

    def run(values: Iterator[float]) -> tuple[list[float], str]:
        done = []
        try:
            for value in values:
                done.append(value)
        except ValueError as error:
            return done, str(error)
        return done, ""

    with Helpers(threads) as helpers:
        assert run(helpers.map(root, items)) == run(map(root, items))
    assert helper_threads() == []
