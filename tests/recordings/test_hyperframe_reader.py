"""A recording reads back as it was written, by time, by position and by window."""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import trainload as tl
from drive_data import IMU, SECOND, Written, picture, write_drive
from present import present
from published_writer import PublishedWriter
from trainload.errors import FormatError, UsageError
from trainload.recordings.format.hyperframe import INDEX_DTYPE
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.reading.stream_frames import StreamFrames
from trainload.recordings.writing.writer import HyperframeWriter


@pytest.fixture(scope="module")
def drive_file(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_drive(tmp_path_factory.mktemp("drive") / "drive.hfr")


@pytest.fixture
def drive(drive_file: Written) -> HyperframeReader:
    return HyperframeReader(drive_file.path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all positional reads from now on."""
    sizes: list[int] = []
    preadv = os.preadv

    def counted(fd: int, buffers: Any, offset: int, *flags: int) -> int:
        sizes.append(sum(len(buffer) for buffer in buffers))
        return preadv(fd, buffers, offset, *flags)

    monkeypatch.setattr(os, "preadv", counted)
    return sizes


# The published format.


def test_the_published_sample_file_reads_as_its_description_says(at_hand: Callable[[str], Path]) -> None:
    vectors = at_hand("recordings")
    described = json.loads((vectors / "plain_unsorted.json").read_text())["frames_in_append_order"]
    reader = HyperframeReader(vectors / "plain_unsorted.hfr")
    assert sum(reader.count(name) for name in reader.streams) == len(described)
    for item in described:
        frame = reader.read_at(item["stream"], item["timestamp_ns"])
        assert frame is not None
        found = (frame.stream_index, frame.flags, len(frame.data), hashlib.sha256(frame.data).hexdigest())
        assert found == (item["index"], item["flags"], item["bytes"], item["sha256"])


def test_a_file_of_the_published_writer_is_sorted_in_memory_with_slightly_disordered_times(tmp_path: Path) -> None:
    writer = PublishedWriter(tmp_path / "plain.hfr", window_ns=100)
    times = [30, 10, 20, 50, 45, 60]  # as they arrived
    for n, time in enumerate(times):
        writer.append(9, time, b"nine%d" % n, flags=3)
        writer.append(4, time + 1, b"four%d" % n)
    writer.finalize()
    reader = tl.open_recording(tmp_path / "plain.hfr")
    assert isinstance(reader, HyperframeReader)
    assert reader.timestamps(9).tolist() == sorted(times)
    assert [bytes(frame.data) for frame in reader.read_range(9, 0, 100)] == [
        b"nine%d" % times.index(time) for time in sorted(times)
    ]
    assert present(reader.read("9", 46)).stream_index == 3
    assert reader.streams["9"].clock == "hardware" and reader.streams["4"].clock == "host"


def test_the_windows_of_a_plain_file_follow_the_window_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    writer = PublishedWriter(tmp_path / "plain.hfr", window_ns=1000)
    given_times = {stream: np.unique(rng.integers(5000, 20000, 40)).tolist() for stream in (1, 2, 3)}
    for stream, times in given_times.items():
        for time in times:
            writer.append(stream, time, bytes(stream))
    writer.finalize()
    left = sorted(time for times in given_times.values() for time in times)
    expected = []
    while left:
        end = left[0] + 1000
        expected.append([time for time in left if time <= end])
        left = [time for time in left if time > end]
    windows = list(HyperframeReader(tmp_path / "plain.hfr"))
    assert [[frame.timestamp_ns for frame in window.frames()] for window in windows] == expected
    assert [window.start_ns for window in windows] == [times[0] for times in expected]


def test_a_big_endian_file_is_refused_with_that_reason(drive_file: Written, tmp_path: Path) -> None:
    data = bytearray(drive_file.path.read_bytes())
    data[8] &= 0xFE
    (tmp_path / "big.hfr").write_bytes(data)
    with pytest.raises(FormatError, match="big-endian"):
        HyperframeReader(tmp_path / "big.hfr")


def test_an_unfinished_file_is_never_parsed_and_the_error_names_recovery(tmp_path: Path) -> None:
    writer = HyperframeWriter(tmp_path / "cut.hfr")
    writer.append(writer.add_stream("a"), 1, b"payload")
    writer.flush()
    writer.detach()
    with pytest.raises(FormatError, match=r"trainload recover .*cut\.hfr\.tmp OUT"):
        tl.open(tmp_path / "cut.hfr.tmp")


# One frame.


def test_read_gives_the_frame_at_or_after_a_time(drive: HyperframeReader, drive_file: Written) -> None:
    for name, frames in drive_file.frames.items():
        for time, payload in frames:
            for asked in (time, time - 1):
                frame = drive.read(name, asked)
                assert frame is not None and (frame.timestamp_ns, bytes(frame.data)) == (time, payload)
        assert drive.read(name, frames[-1][0] + 1) is None
        assert drive.read_at(name, frames[0][0] + 1) is None
        assert drive.read_before(name, frames[0][0] - 1) is None


@given(times=st.lists(st.integers(0, 50), max_size=20), asked=st.integers(0, 60))
def test_after_before_at_and_nearest_agree_with_a_search_by_hand(times: list[int], asked: int) -> None:
    entries = np.zeros(len(times), INDEX_DTYPE)
    entries["timestamp_ns"] = sorted(times)
    frames, ordered = StreamFrames(StreamInfo(0, "s"), [entries]), sorted(times)
    assert frames.after(asked) == next((i for i, time in enumerate(ordered) if time >= asked), None)
    assert frames.before(asked) == next((i for i in reversed(range(len(ordered))) if ordered[i] <= asked), None)
    assert frames.at(asked) == (ordered.index(asked) if asked in ordered else None)
    nearest = min(range(len(ordered)), key=lambda i: (abs(ordered[i] - asked), i), default=None)
    assert frames.nearest(asked) == nearest


def test_positions_count_in_time_order_and_from_the_end(drive: HyperframeReader, drive_file: Written) -> None:
    frames = drive_file.frames["camera"]
    assert bytes(drive.read_at_index("camera", 3).data) == frames[3][1]
    assert bytes(drive.read_at_index("camera", -1).data) == frames[-1][1]
    for position in (len(frames), -len(frames) - 1):
        with pytest.raises(IndexError):
            drive.read_at_index("camera", position)


def test_one_frame_is_one_read_of_its_stored_bytes(drive: HyperframeReader, reads: list[int]) -> None:
    drive.read("camera", 0)
    assert reads == [int(drive.sizes("camera")[0])]


def test_an_unknown_stream_is_a_usage_error_that_lists_the_streams(drive: HyperframeReader) -> None:
    with pytest.raises(UsageError, match="lidar/top, camera, odometry, imu"):
        drive.read("radar", 0)
    assert "imu" in drive and "radar" not in drive


def test_acquisition_receive_time_and_duration_stay_apart(drive: HyperframeReader, drive_file: Written) -> None:
    times = [time for time, _ in drive_file.frames["camera"]]
    receive, durations = drive.receive_times("camera"), drive.durations("camera")
    assert receive is not None and receive.tolist() == [time + 500 for time in times]
    assert durations is not None and durations.tolist() == [1000 + i for i in range(len(times))]
    lidar = drive.durations("lidar/top")
    assert lidar is not None and set(lidar.tolist()) == {50_000_000}
    assert drive.receive_times("odometry") is None and drive.durations("odometry") is None


# Arrays.


def test_arrays_are_views_of_the_read_bytes_at_addresses_of_64(drive: HyperframeReader, drive_file: Written) -> None:
    frames = [drive.read_at_index("odometry", 5), *drive.window(2)["odometry"], drive.read_at_index("lidar/top", 1)]
    for frame in frames:
        array = drive.array(frame)
        assert np.shares_memory(array, np.frombuffer(frame.data, np.uint8))
        assert array.__array_interface__["data"][0] % 64 == 0
    assert frames[0].array().shape == (3, 2) and frames[0].array().dtype == np.dtype("<f8")
    lidar = drive_file.frames["lidar/top"][1][1]
    assert np.array_equal(frames[-1].array(), np.frombuffer(lidar, "<f4").reshape(-1, 4))


def test_packed_samples_come_back_as_one_structured_array(drive: HyperframeReader) -> None:
    samples = np.concatenate([frame.array() for frame in drive.read_range("imu", 0, 2 * SECOND)])
    assert samples.dtype.names == ("timestamp_ns", *present(IMU.names))
    assert samples["timestamp_ns"].tolist() == [i * SECOND // 200 for i in range(200)]


def test_a_picture_decodes_as_pillow_does(drive: HyperframeReader) -> None:
    frame = drive.read("camera", 0, decode=True)
    assert frame is not None
    with Image.open(io.BytesIO(picture(0))) as image:
        assert np.array_equal(present(frame.decoded), np.asarray(image.convert("RGB")))


def test_a_payload_of_broken_elements_is_a_format_error(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        writer.append(writer.add_stream("s", dtype="<f8"), 0, b"seven b")
    with pytest.raises(FormatError, match="whole elements"):
        HyperframeReader(tmp_path / "a.hfr").read_at_index("s", 0).array()


@pytest.mark.parametrize("codec", ["none", "lz4", "lz4hc", "zstd"])
def test_every_codec_reads_back(codec: str, tmp_path: Path) -> None:
    written = write_drive(tmp_path / "drive.hfr", codec=codec, seconds=0.4)
    reader = HyperframeReader(written.path)
    found = [(frame.timestamp_ns, bytes(frame.data)) for frame in reader.read_range("lidar/top", 0, SECOND)]
    assert found == written.frames["lidar/top"]


# Many frames.


def test_a_range_takes_its_start_and_leaves_its_end(drive: HyperframeReader, drive_file: Written) -> None:
    times = [time for time, _ in drive_file.frames["odometry"]]
    found = drive.read_range("odometry", times[3], times[7])
    assert [frame.timestamp_ns for frame in found] == times[3:7]
    assert drive.read_range("odometry", times[7], times[3]) == []


def test_a_window_is_one_read_and_so_is_a_span_of_windows(drive: HyperframeReader, reads: list[int]) -> None:
    assert len(drive.windows) == len(drive) == 10
    for read in (lambda: [drive.window(4)], lambda: drive.windows(2, 7), lambda: drive.windows[2:7]):
        windows = read()
        assert len(reads) == 1
        assert all(len(window.frames()) > 5 for window in windows)
        assert len(reads) == 1
        reads.clear()


def test_iteration_gives_every_frame_once_in_order(drive: HyperframeReader, drive_file: Written) -> None:
    found: dict[str, list[tuple[int, bytes]]] = {name: [] for name in drive.streams}
    for window in drive:
        for name in window:
            found[name] += [(frame.timestamp_ns, bytes(frame.data)) for frame in window[name]]
            assert all(window.start_ns <= frame.timestamp_ns <= window.end_ns for frame in window[name])
    found.pop("imu")
    assert found == drive_file.frames
    times = [frame.timestamp_ns for frame in drive.frames()]
    assert times == sorted(times) and len(times) == sum(drive.count(name) for name in drive.streams)


def test_filters_leave_out_streams_and_their_bytes(drive: HyperframeReader, reads: list[int]) -> None:
    window = drive.window(3, streams=["odometry"])
    assert list(window) == ["odometry"] and window["camera"] == () and "camera" not in window
    some = list(drive.frames(["camera", "odometry"], start_ns=200_000_000, end_ns=300_000_000))
    assert {frame.stream for frame in some} == {"camera", "odometry"}
    assert all(200_000_000 <= frame.timestamp_ns < 300_000_000 for frame in some)
    with pytest.raises(UsageError, match="no stream 'radar'"):
        drive.window(0, streams=["radar"])
    with pytest.raises(IndexError):
        drive.window(10)


def test_late_frames_are_found_by_time_and_by_window(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "late.hfr", window=100, lateness=0) as writer:
        stream = writer.add_stream("s")
        for time in (0, 50, 150, 300, 20, 310):
            writer.append(stream, time, b"%d" % time)
    reader = HyperframeReader(tmp_path / "late.hfr")
    assert reader.timestamps("s").tolist() == [0, 20, 50, 150, 300, 310]
    late = reader.read("s", 20)
    assert late is not None and late.late and bytes(late.data) == b"20"
    assert [bytes(frame.data) for frame in reader.window(0)["s"]] == [b"0", b"20", b"50"]


def test_an_empty_recording_opens(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "none.hfr") as writer:
        writer.add_stream("s")
    reader = HyperframeReader(tmp_path / "none.hfr")
    assert (
        len(reader) == 0 and list(reader) == [] and reader.read("s", 0) is None and reader.read_nearest("s", 0) is None
    )


def test_a_folder_of_parts_opens_as_one(tmp_path: Path) -> None:
    for part in range(3):
        with HyperframeWriter(tmp_path / f"part_{part}.hfr", window=100) as writer:
            stream = writer.add_stream("s")
            for i in range(10):
                writer.append(stream, part * 1000 + i * 70, b"%d %d" % (part, i), receive_ns=1 + i if part == 1 else 0)
    parts = [HyperframeReader(path) for path in sorted(tmp_path.glob("*.hfr"))]
    reader = tl.open_recording(tmp_path)
    assert isinstance(reader, HyperframeReader) and len(parts) == 3
    assert reader.timestamps("s").tolist() == [part * 1000 + i * 70 for part in range(3) for i in range(10)]
    assert [bytes(frame.data) for frame in reader.frames()] == [b"%d %d" % (p, i) for p in range(3) for i in range(10)]
    assert len(reader) == sum(len(part) for part in parts)
    assert [window.number for window in reader] == list(range(len(reader)))
    assert [bytes(frame.data) for frame in reader.read_range("s", 600, 1100)] == [b"0 9", b"1 0", b"1 1"]
    receive = reader.receive_times("s")
    assert receive is not None and receive.tolist() == [0] * 10 + list(range(1, 11)) + [0] * 10


def test_a_recording_that_was_split_while_it_was_made_reads_without_a_seam(tmp_path: Path) -> None:
    with tl.Recorder(tmp_path / "drive", window="10ms", split_duration="100ms") as recorder:
        stream = recorder.add_stream("s")
        for i in range(500):
            recorder.write(stream, i * 1_000_000, b"%d" % i)
    reader = HyperframeReader(tmp_path / "drive")
    assert len(reader.paths) > 2
    assert [bytes(frame.data) for frame in reader.frames()] == [b"%d" % i for i in range(500)]
    assert reader.stream_index("s").tolist() == list(range(500))


def test_parts_of_different_recordings_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with HyperframeWriter(tmp_path / f"{name}.hfr") as writer:
            writer.append(writer.add_stream(name), 1, b"x")
    with pytest.raises(FormatError, match="same streams"):
        HyperframeReader(tmp_path)


# Threads, processes, pickles.


def _sum(reader: HyperframeReader) -> int:
    return sum(sum(frame.data) for window in reader for frame in window.frames())


def test_many_threads_read_the_same_from_one_reader(drive: HyperframeReader) -> None:
    fresh = pickle.loads(pickle.dumps(drive))
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: _sum(fresh), range(16))) == {_sum(drive)}


def test_a_pickle_holds_path_and_options_and_opens_when_used(drive_file: Written) -> None:
    reader = HyperframeReader(drive_file.path, verify="none")
    copy = pickle.loads(pickle.dumps(reader))
    assert "files" not in vars(copy)
    assert len(pickle.dumps(reader)) < 500
    assert copy.read_at_index("camera", 0).data == reader.read_at_index("camera", 0).data
    assert not copy.files[0].checks_frames


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method_read(method: str, drive: HyperframeReader) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_sum, [drive, drive]) == [_sum(drive)] * 2


def test_a_closed_reader_refuses_and_closes_twice(drive_file: Written) -> None:
    with HyperframeReader(drive_file.path) as reader:
        reader.read("camera", 0)
    reader.close()
    with pytest.raises(UsageError, match="closed"):
        reader.read("camera", 0)


def test_a_reader_that_is_open_when_the_interpreter_ends_ends_in_silence(drive_file: Written) -> None:
    code = """import sys, trainload as tl, trainload.memory.aligned as kept
drive = tl.open_recording(sys.argv[1])
kept.until_modules_go = lambda: drive"""
    done = subprocess.run([sys.executable, "-c", code, drive_file.path], capture_output=True, text=True, check=True)
    assert done.stderr == ""
