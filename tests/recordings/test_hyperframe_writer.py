"""HyperframeWriter: what it writes reads back, by the published text and by the profile; refused inputs; faults."""

from __future__ import annotations

import errno
import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from faulty_file import Faults
from opened_recording import OpenedRecording
from published_reader import PublishedReader
from trainload import UsageError
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import sections
from trainload.recordings.format.records import WindowRecord
from trainload.recordings.format.windows import window_table
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing.compressor import Compressor
from trainload.recordings.writing.writer import HyperframeWriter

MS = 1_000_000
IMU = np.dtype([("gyro", "<f4", (3,)), ("accel", "<f4", (3,))])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_rig(path: Path, *, codec: str = "none", shuffle: bool = False, seconds: float = 2.0, **options: Any) -> dict:
    """A small rig with jitter and 31 Hz; returns the frames by stream name, in the order of time."""
    rng = random.Random(7)
    told: dict[str, list[tuple[int, bytes]]] = {}
    arrivals: list[tuple[int, str, bytes]] = []
    for name, rate, size in (("cam", 31, 3000), ("lidar", 10, 4096), ("imu", 200, 24)):
        times = sorted({int(n * 1e9 / rate) + rng.randint(0, 3 * MS) for n in range(int(rate * seconds))})
        told[name] = [(time, bytes([n % 7]) * (size // 2) + rng.randbytes(size // 2)) for n, time in enumerate(times)]
        arrivals += [(time, name, data) for time, data in told[name]]
    arrivals.sort(key=lambda frame: frame[0] + random.Random(frame[0]).randint(0, 20 * MS))
    with HyperframeWriter(path, **options) as writer:
        writer.add_stream("cam", kind="camera", encoding="jpeg", rate_hz=31, codec=codec, frame_duration="5ms")
        writer.add_stream("lidar", kind="lidar", dtype="<f4", shape=(-1, 4), codec=codec, shuffle=shuffle)
        writer.add_stream("imu", kind="imu", dtype=IMU, packed=True, codec=codec, shuffle=shuffle, clock="host")
        for time, name, data in arrivals:
            writer.append(name, time, data, receive_ns=time + 5, duration_ns=7 if name == "lidar" else 0)
    return told


def unpacked(file: OpenedRecording, name: str) -> list[tuple[int, bytes]]:
    """The samples of a packed stream with their own times."""
    samples = []
    for first, payload in file.frames(name):
        array = np.frombuffer(payload, file.streams[name].dtype)
        assert int(array["timestamp_ns"][0]) == first
        samples += [(int(one["timestamp_ns"]), one.tobytes()[8:]) for one in array]
    return samples


@pytest.mark.parametrize(("codec", "shuffle"), [("none", False), ("lz4", True), ("lz4hc:3", False), ("zstd", True)])
def test_what_is_written_reads_back_frame_for_frame(tmp_path: Path, codec: str, shuffle: bool) -> None:
    told = write_rig(tmp_path / "a.hfr", codec=codec, shuffle=shuffle)
    file = OpenedRecording(tmp_path / "a.hfr")
    assert file.frames("cam") == told["cam"]
    assert file.frames("lidar") == told["lidar"]
    assert unpacked(file, "imu") == told["imu"]
    assert bool(file.header.flags & hfrm.COMPRESSED) == (codec != "none")


def test_a_reader_of_the_published_text_reads_our_file(tmp_path: Path) -> None:
    told = write_rig(tmp_path / "a.hfr")
    reader = PublishedReader(tmp_path / "a.hfr")
    assert reader.sorted and reader.streams() == [0, 1, 2] and reader.stream_count == 3
    for stream, name in ((0, "cam"), (1, "lidar")):
        found = reader.read_range(stream, 0, 1 << 62)
        assert [(time, data) for _, time, _, data in found] == told[name]
        time, data = told[name][4]
        assert reader.read(stream, time - 1) == (4, time, found[4][2], data)
    first = min(time for frames in told.values() for time, _ in frames)
    assert reader.start_ns == first and reader.end_ns > max(time for time, _ in told["cam"]) - 100 * MS
    reader.close()


def test_every_frame_starts_at_a_multiple_of_64_and_gaps_are_zeros_or_records(tmp_path: Path) -> None:
    write_rig(tmp_path / "a.hfr")
    file = OpenedRecording(tmp_path / "a.hfr")
    used = bytearray(len(file.data))
    for _, _, _, _, offset, size, crc in file.index.tolist():
        assert offset % 64 == 0
        assert isal_zlib.crc32(file.data[offset : offset + size]) == crc
        used[offset : offset + size] = b"\1" * size
    for record in file.records:
        assert isinstance(record, WindowRecord)
        size = record.head.record_size
        assert not any(used[record.offset : record.offset + size])
        used[record.offset : record.offset + size] = b"\1" * size
    rest = [byte for byte, taken in zip(file.data[512 : file.header.index_offset], used[512:]) if not taken]
    assert not any(rest)


def test_records_index_and_window_table_tell_the_same(tmp_path: Path) -> None:
    write_rig(tmp_path / "a.hfr")
    file = OpenedRecording(tmp_path / "a.hfr")
    records = [one for one in file.records if isinstance(one, WindowRecord) and not one.last]
    assert len(records) == len(file.windows)
    entries = np.concatenate([record.entries for record in records])
    assert entries[hfrm.index_order(entries)].tobytes() == file.index.tobytes()
    again = window_table(file.index, file.header.window_ns)
    assert again.to_bytes() == file.sections[b"WNDW"]
    for record, start, offset, size in zip(
        records, file.windows.start_ns, file.windows.extent_offset, file.windows.extent_size
    ):
        assert record.head.start_ns == start
        assert record.offset < offset and offset + size <= record.end
        assert record.entries["timestamp_ns"].tolist() == sorted(record.entries["timestamp_ns"].tolist())


def test_receive_times_and_durations_stay_apart_from_timestamps(tmp_path: Path) -> None:
    write_rig(tmp_path / "a.hfr")
    file = OpenedRecording(tmp_path / "a.hfr")
    received = sections.receive_times_from_bytes(file.sections[b"RECV"], entries=len(file.index))
    assert np.array_equal(received, file.index["timestamp_ns"] + 5)
    lasted = sections.durations_from_bytes(file.sections[b"DURA"], entries=len(file.index))
    lidar = file.index["stream_id"] == file.streams["lidar"].id
    assert set(lasted[lidar].tolist()) == {7} and set(lasted[~lidar].tolist()) == {0}
    assert file.streams["cam"].frame_duration_ns == 5 * MS


def test_stream_facts_clocks_and_key_frames_are_kept(tmp_path: Path) -> None:
    calibration = {"intrinsics": [[700.0, 0, 320], [0, 700.0, 240], [0, 0, 1]], "frame": "base_link"}
    with HyperframeWriter(tmp_path / "a.hfr", meta={"car": "blue"}) as writer:
        writer.add_stream("h264", kind="camera", encoding="h264", rate_hz=30, calibration=calibration)
        host = writer.add_stream("gnss", kind="gnss", clock="host")
        for n in range(6):
            writer.append("h264", n, b"x", key_frame=n % 3 == 0, stream_index=10 + n)
            writer.append(host, n, b"y")
    file = OpenedRecording(tmp_path / "a.hfr")
    assert file.streams["h264"].calibration == calibration
    rows = file.rows("h264")
    assert [row[1] for row in rows] == [3, 2, 2, 3, 2, 2]
    assert [row[2] for row in rows] == [10, 11, 12, 13, 14, 15]
    assert {row[1] for row in file.rows("gnss")} == {hfrm.KEY_FRAME}
    assert sections.meta_from_bytes(file.sections[b"META"]) == {"car": "blue"}


def test_a_codec_on_jpeg_is_left_out_with_a_warning(tmp_path: Path) -> None:
    writer = HyperframeWriter(tmp_path / "a.hfr")
    writer.add_stream("cam", encoding="jpeg", codec="zstd")
    writer.append("cam", 0, bytes(10_000))
    summary = writer.finalize()
    assert summary.warnings == ("stream 'cam': codec 'zstd' is wasted on jpeg and was left out",)
    file = OpenedRecording(tmp_path / "a.hfr")
    assert file.streams["cam"].codec == "none" and file.index["byte_size"].tolist() == [10_000]


def test_late_frames_are_marked_counted_and_found_in_their_window(tmp_path: Path) -> None:
    writer = HyperframeWriter(tmp_path / "a.hfr", window="100ns", lateness=0)
    writer.add_stream("a")
    imu = writer.add_stream("imu", dtype="<u4", packed=True)
    for time in (0, 40, 150, 260):
        writer.append("a", time, bytes([time % 256]))
        writer.append(imu, time, np.uint32(time))
    writer.append("a", 20, b"late")
    writer.append(imu, 30, np.uint32(30))
    summary = writer.finalize()
    assert summary.late == {"a": 1, "imu": 1}
    file = OpenedRecording(tmp_path / "a.hfr")
    late = (file.index["flags"] & hfrm.LATE) != 0
    assert file.index["timestamp_ns"][late].tolist() == [20, 30]
    assert file.windows.start_ns.tolist() == [0, 150, 260]
    assert file.windows.count.tolist() == [[3, 2], [1, 1], [1, 1]]
    assert sorted(unpacked(file, "imu")) == [(t, np.uint32(t).tobytes()) for t in (0, 30, 40, 150, 260)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3000)), max_size=80), st.integers(0, 200))
def test_any_order_across_streams_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, frames: list[tuple[int, int]], lateness: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.hfr"
    with HyperframeWriter(path, window=100, lateness=lateness) as writer:
        for n in range(4):
            writer.add_stream(f"s{n}", codec="zstd" if n == 3 else "none")
        for n, (stream, time) in enumerate(frames):
            writer.append(stream, time, b"%d" % n * 10)
    file = OpenedRecording(path)
    told = sorted((stream, time, b"%d" % n * 10) for n, (stream, time) in enumerate(frames))
    assert sorted((s.id, *frame) for s in file.streams.values() for frame in file.frames(s.name)) == told


def test_an_empty_recording_is_a_whole_file(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        writer.add_stream("never")
    file = OpenedRecording(tmp_path / "a.hfr")
    assert (len(file.index), len(file.windows), list(file.streams)) == (0, 0, ["never"])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda w: w.append("nobody", 0, b"x"), "no stream 'nobody'"),
        (lambda w: w.append(9, 0, b"x"), "no stream 9"),
        (lambda w: w.append([], 0, b"x"), "no stream"),
        (lambda w: w.append("a", -1, b"x"), "timestamp_ns"),
        (lambda w: w.append("a", 1 << 63, b"x"), "timestamp_ns"),
        (lambda w: w.append("a", 0.5, b"x"), "whole number"),
        (lambda w: w.append("a", 0, b"x", stream_index=1 << 32), "stream_index"),
        (lambda w: w.append("a", 0, b"x", duration_ns=1 << 32), "duration_ns"),
        (lambda w: w.append("a", 0, b"x", receive_ns=-1), "receive_ns"),
        (lambda w: w.append("a", 0, 5), "payload"),
        (lambda w: w.append("a", 0, "text"), "payload"),
        (lambda w: w.append("a", 0, np.broadcast_to(np.zeros(1, "u1"), (1 << 32,))), "4 GiB - 1"),
        (lambda w: w.append("imu", 0, b"123"), "samples of 24 bytes"),
        (lambda w: w.add_stream("a"), "name of its own"),
        (lambda w: w.add_stream(""), "name of its own"),
        (lambda w: w.add_stream("b", codec="rar"), "codec"),
        (lambda w: w.add_stream("b", clock="sun"), "clock"),
        (lambda w: w.add_stream("b", rate_hz=-1), "rate_hz"),
        (lambda w: w.add_stream("b", dtype="O"), "dtype"),
        (lambda w: w.add_stream("b", packed=True), "dtype"),
        (lambda w: w.add_stream("b", shuffle=True), "dtype"),
        (lambda w: w.add_stream("b", shuffle=-3), "shuffle"),
        (lambda w: w.add_stream("b", frame_duration="5s"), "4.29 s"),
        (lambda w: w.add_stream("b", shape=(-1, -1)), "shape"),
        (lambda w: w.add_stream("b", calibration={"k": object()}), "stream table"),
        (lambda w: w.add_stream("b", calibration={"k": float("nan")}), "stream table"),
    ],
)
def test_refused_input_is_a_usage_error_and_nothing_is_written(tmp_path: Path, call: Any, text: str) -> None:
    writer = HyperframeWriter(tmp_path / "a.hfr")
    writer.add_stream("a")
    writer.add_stream("imu", dtype=IMU, packed=True)
    with pytest.raises(UsageError, match=text):
        call(writer)
    writer.finalize()
    file = OpenedRecording(tmp_path / "a.hfr")
    assert len(file.index) == 0 and list(file.streams) == ["a", "imu"]


def test_a_payload_changed_after_append_does_not_change_the_file(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        writer.add_stream("a")
        buffer = bytearray(b"before")
        writer.append("a", 0, buffer)
        buffer[:] = b"after!"
        writer.append("a", 1, np.arange(6, dtype="u1").reshape(2, 3)[:, ::2])
    assert OpenedRecording(tmp_path / "a.hfr").frames("a") == [(0, b"before"), (1, bytes([0, 2, 3, 5]))]


def test_the_name_appears_only_when_the_file_is_whole_and_abort_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "a.hfr"
    writer = HyperframeWriter(path)
    writer.add_stream("a")
    writer.append("a", 0, b"x")
    assert names(tmp_path) == ["a.hfr.tmp"]
    writer.abort()
    writer.abort()
    assert names(tmp_path) == []
    with pytest.raises(ZeroDivisionError), HyperframeWriter(path):
        raise ZeroDivisionError
    assert names(tmp_path) == []
    with pytest.raises(UsageError, match="finished"):
        writer.append("a", 0, b"x")
    with pytest.raises(UsageError, match="finished"):
        writer.add_stream("b")


def test_an_existing_or_unfinished_recording_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "a.hfr"
    HyperframeWriter(path).detach()
    with pytest.raises(UsageError, match="trainload recover"):
        HyperframeWriter(path)
    HyperframeWriter(path, overwrite=True).finalize()
    with pytest.raises(UsageError, match="exists"):
        HyperframeWriter(path)
    HyperframeWriter(path, overwrite=True).finalize()


def test_thousands_of_frames_in_one_window_are_one_window(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "a.hfr", window="1h") as writer:
        writer.add_stream("a")
        for n in range(5000):
            writer.append("a", n, b"%d" % n)
    file = OpenedRecording(tmp_path / "a.hfr")
    assert len(file.records) == 2 and [data for _, data in file.frames("a")] == [b"%d" % n for n in range(5000)]


def test_windows_leave_the_compressor_in_order_and_within_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainload.recordings.writing.writer.Compressor", partial(Compressor, limit_bytes=1))
    with HyperframeWriter(tmp_path / "a.hfr", window=10, lateness=0, threads=3) as writer:
        writer.add_stream("a", codec="zstd:19")
        for n in range(60):
            writer.append("a", n * 20, bytes([n]) * (200_000 if n % 5 == 0 else 10))
            assert writer.part.windows == n  # every closed window is written: none may be in flight
    numbers = [
        one.head.start_ns for one in OpenedRecording(tmp_path / "a.hfr").records if isinstance(one, WindowRecord)
    ]
    assert numbers[:-1] == [n * 20 for n in range(60)]


OPERATIONS = [("write", 3), ("write", 5), ("sync", 1), ("sync", 2), ("rename", 1)]


@pytest.mark.parametrize(("operation", "number"), OPERATIONS)
def test_one_failing_operation_loses_no_written_window(tmp_path: Path, operation: str, number: int) -> None:
    path = tmp_path / "a.hfr"
    writer = HyperframeWriter(path, open_file=Faults({(operation, number): errno.EIO}).opener(), window=10, lateness=0)
    writer.add_stream("a")
    written: list[bytes] = []
    with pytest.raises(OSError, match=r"safe are .*trainload recover") as caught, writer:
        for n in range(10):
            written.append(b"%d" % n * 50)
            writer.append("a", n * 20, written[-1])
    assert caught.value.errno == errno.EIO
    assert names(tmp_path) == ["a.hfr.tmp"]
    report = recover(path.with_name("a.hfr.tmp"), path)
    whole = number - 2 if operation == "write" else 10
    assert report.windows == whole and not report.losses
    assert [data for _, data in OpenedRecording(path).frames("a")] == written[:whole]


def test_a_folder_that_cannot_be_synced_leaves_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("trainload.storage.atomic.sync_folder", refuse)
    with pytest.raises(OSError, match="the file is whole"), HyperframeWriter(tmp_path / "a.hfr") as writer:
        writer.add_stream("a")
        writer.append("a", 0, b"x")
    assert OpenedRecording(tmp_path / "a.hfr").frames("a") == [(0, b"x")]


def test_short_writes_are_written_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, pwritev = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:777], at))
    monkeypatch.setattr(os, "pwritev", lambda fd, data, at: pwritev(fd, [b"".join(data)[:1000]], at))
    told = write_rig(tmp_path / "a.hfr", codec="zstd")
    assert OpenedRecording(tmp_path / "a.hfr").frames("cam") == told["cam"]


def test_a_full_disk_leaves_whole_windows_and_says_what_is_safe(tmp_path: Path) -> None:
    path = tmp_path / "a.hfr"
    writer = HyperframeWriter(path, open_file=Faults(capacity_bytes=20_000).opener(), window=10, lateness=0)
    writer.add_stream("a")
    with pytest.raises(OSError, match="safe are") as caught, writer:
        for n in range(100):
            writer.append("a", n * 20, bytes([n]) * 1000)
    assert caught.value.errno == errno.ENOSPC
    report = recover(path.with_name("a.hfr.tmp"), path)
    assert report.windows >= 10 and not report.losses
    assert OpenedRecording(path).frames("a") == [(n * 20, bytes([n]) * 1000) for n in range(report.windows)]


def test_a_file_that_readers_would_refuse_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainload.recordings.writing.part.MAX_FRAMES", 5)
    writer = HyperframeWriter(tmp_path / "a.hfr", window=1, lateness=0)
    writer.add_stream("a")
    with pytest.raises(UsageError, match="at most 5 frames"):
        for n in range(10):
            writer.append("a", n * 10, b"x")
    monkeypatch.setattr("trainload.recordings.writing.part.MAX_FRAMES", 100)
    monkeypatch.setattr("trainload.recordings.writing.part.MAX_SECTION_BYTES", 80)
    with pytest.raises(UsageError, match="windows are too many"):
        writer.append("a", 1000, b"x")
    writer.abort()
