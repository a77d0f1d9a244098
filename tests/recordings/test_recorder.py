"""Recorder: threads, the bounded queue and its policies, late frames, splits, full disks, followers, statistics."""

from __future__ import annotations

import errno
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from isal import isal_zlib

from faulty_file import Faults
from opened_recording import OpenedRecording
from trainload import UsageError
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format.records import WindowRecord, walk_records
from trainload.recordings.format.sections import Drop, receive_times_from_bytes
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing.recorder import Recorder
from trainload.storage.atomic import AtomicFile

MS = 1_000_000


class Gate(AtomicFile):
    """A disk that takes no window until it is opened."""

    opened: threading.Event

    def write_vector_at(self, offset: int, buffers: Sequence[bytes | memoryview]) -> None:
        assert self.opened.wait(20)
        super().write_vector_at(offset, buffers)


def gate() -> tuple[threading.Event, Callable[[Path], AtomicFile]]:
    opened = threading.Event()

    def open_gate(path: Path) -> AtomicFile:
        file = Gate(path, keep=True)
        file.opened = opened
        return file

    return opened, open_gate


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_frames_from_many_threads_all_arrive_once(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.hfr", queue_bytes=50_000, lateness="10s", sync_every="10ms") as recorder:
        for n in range(6):
            recorder.add_stream(f"s{n}", codec="lz4" if n % 2 else "none")

        def feed(stream: int) -> None:
            for n in range(400):
                assert recorder.write(stream, n * MS, b"%d-%d" % (stream, n) * 20)

        threads = [threading.Thread(target=feed, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    file = OpenedRecording(tmp_path / "a.hfr")
    for n in range(6):
        assert file.frames(f"s{n}") == [(k * MS, b"%d-%d" % (n, k) * 20) for k in range(400)]
        assert [row[2] for row in file.rows(f"s{n}")] == list(range(400))
    assert not (file.index["flags"] & hfrm.LATE).any() and file.drops == []


def fill(tmp_path: Path, policy: str, frames: int) -> OpenedRecording:
    """Write to a disk that stands still until all `frames` were offered; a queue of 10 small frames, windows of one."""
    opened, open_file = gate()
    recorder = Recorder(tmp_path / "a.hfr", window=1, lateness=0, queue_bytes=5_000, policy=policy, open_file=open_file)
    recorder.add_stream("a")
    recorder.write("a", 0, b"0" * 100)
    recorder.write("a", 10, b"1" * 100)  # closes the first window: the writing thread now waits for the disk
    wait_until(lambda: recorder.stats().queue_frames == 0)
    for n in range(2, frames):
        recorder.write("a", n * 10, b"%d" % n * 100)
    opened.set()
    recorder.close()
    return OpenedRecording(tmp_path / "a.hfr")


def test_drop_newest_keeps_what_came_first_and_counts_the_rest(tmp_path: Path) -> None:
    file = fill(tmp_path, "drop_newest", 50)
    kept = [row[2] for row in file.rows("a")]
    assert kept == list(range(len(kept))) and 10 <= len(kept) < 50
    assert [(drop.stream_id, drop.reason, drop.frames) for drop in file.drops] == [(0, "drop_newest", 50 - len(kept))]


def test_drop_oldest_keeps_what_came_last_and_the_gap_shows_in_the_index(tmp_path: Path) -> None:
    file = fill(tmp_path, "drop_oldest", 50)
    kept = [row[2] for row in file.rows("a")]
    assert kept[:2] == [0, 1] and kept[2:] == list(range(50 - len(kept) + 2, 50)) and len(kept) < 50
    assert sum(drop.frames for drop in file.drops) == 50 - len(kept)
    assert [(time, data[:2]) for time, data in file.frames("a")][-1] == (490, b"49")


def test_a_long_standstill_takes_no_more_memory_than_the_queue_may(tmp_path: Path) -> None:
    opened, open_file = gate()
    recorder = Recorder(
        tmp_path / "a.hfr", window=1, lateness=0, queue_bytes=5_000, policy="drop_oldest", open_file=open_file
    )
    recorder.add_stream("a")
    recorder.add_stream("b")
    tracemalloc.start()
    for n in range(5_000):
        recorder.write("b" if n == 3 else "a", n * 10, b"x" * 100)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 100_000 and recorder.stats().queue_bytes <= 5_000  # the places of 5,000 dropped frames: 360,000
    opened.set()
    summary = recorder.close()
    assert summary.frames + sum(drop.frames for drop in summary.drops) == 5_000


def test_block_waits_and_drops_nothing(tmp_path: Path) -> None:
    opened, open_file = gate()
    with Recorder(tmp_path / "a.hfr", window=1, lateness=0, queue_bytes=5_000, open_file=open_file) as recorder:
        recorder.add_stream("a")
        threading.Timer(0.05, opened.set).start()
        for n in range(200):
            assert recorder.write("a", n * 10, b"x" * 100)
    file = OpenedRecording(tmp_path / "a.hfr")
    assert len(file.rows("a")) == 200 and file.drops == []


def test_the_policy_is_the_streams_own(tmp_path: Path) -> None:
    opened, open_file = gate()
    recorder = Recorder(tmp_path / "a.hfr", window=1, lateness=0, queue_bytes=5_000, open_file=open_file)
    recorder.add_stream("keep", policy="drop_oldest")
    recorder.add_stream("spare", policy="drop_newest")
    for n in range(3):
        recorder.write("keep", n * 10, b"k" * 100)
    for n in range(60):
        recorder.write("spare", 100 + n * 10, b"s" * 100)
        recorder.write("keep", 100 + n * 10, b"k" * 100)
    dropped = {stream.name: stream.dropped for stream in recorder.stats().streams}
    opened.set()
    summary = recorder.close()
    assert {drop.reason for drop in summary.drops} == {"drop_newest", "drop_oldest"}
    file = OpenedRecording(tmp_path / "a.hfr")
    assert [row[2] for row in file.rows("keep")][-1] == 62  # the newest of "keep" survives, the newest of "spare" not
    assert [row[2] for row in file.rows("spare")][-1] < 59
    assert dropped == {"keep": 63 - len(file.rows("keep")), "spare": 60 - len(file.rows("spare"))}


def test_a_frame_larger_than_the_queue_passes_when_it_is_empty(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.hfr", queue_bytes=1000, policy="drop_newest") as recorder:
        recorder.add_stream("a")
        assert recorder.write("a", 0, bytes(100_000))
    assert OpenedRecording(tmp_path / "a.hfr").index["byte_size"].tolist() == [100_000]


def test_frames_within_the_lateness_are_on_time_and_later_ones_are_marked(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.hfr", window="10ms", lateness="20ms") as recorder:
        recorder.add_stream("a")
        for time_ns in (0, 25 * MS, 6 * MS, 60 * MS, 8 * MS):
            recorder.write("a", time_ns, b"x")
    file = OpenedRecording(tmp_path / "a.hfr")
    assert [row[3] for row in file.rows("a") if row[1] & hfrm.LATE] == [8 * MS]
    assert file.windows.count.tolist() == [[3], [1], [1]]


def test_windows_are_committed_while_frames_come_and_when_all_is_quiet(tmp_path: Path) -> None:
    commits: list[tuple[int, Path]] = []
    recorder = Recorder(
        tmp_path / "a.hfr", window="10ms", sync_every="20ms", on_commit=lambda n, path: commits.append((n, path))
    )
    recorder.add_stream("a")
    recorder.write("a", 0, b"first")
    wait_until(lambda: recorder.stats().committed_windows == 1)  # nothing more comes, and yet it is safe
    recorder.write("a", 50 * MS, b"second")
    wait_until(lambda: recorder.stats().committed_windows == 2)
    assert {path for _, path in commits} == {tmp_path / "a.hfr.tmp"}
    assert [n for n, _ in commits] == sorted(n for n, _ in commits)
    recorder.close()
    assert len(OpenedRecording(tmp_path / "a.hfr").rows("a")) == 2


def test_a_follower_reads_finished_windows_while_the_file_grows(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.hfr", window="10ms", lateness=0, sync_every="5ms")
    recorder.add_stream("a", codec="lz4")
    seen: list[int] = []
    at = hfrm.HEADER_BYTES
    for n in range(300):
        recorder.write("a", n * 3 * MS, b"%d" % n * 100)
        if n % 50 == 49:
            wait_until(lambda least=n // 4: recorder.stats().windows >= least)  # type: ignore[misc]
            data = (tmp_path / "a.hfr.tmp").read_bytes()
            for found in walk_records(lambda o, s, data=data: data[o : o + s], len(data), start=at):  # type: ignore[misc]
                if not isinstance(found, WindowRecord) or found.end > len(data):
                    break
                for _, _, number, _, offset, size, crc in found.entries.tolist():
                    assert isal_zlib.crc32(data[offset : offset + size]) == crc
                    seen.append(number)
                at = found.end
    recorder.close()
    assert seen == list(range(len(seen))) and len(seen) > 200


@pytest.mark.parametrize("by", ["size", "duration"])
def test_a_split_loses_no_frame_and_every_part_stands_alone(tmp_path: Path, by: str) -> None:
    folder = tmp_path / "drive"
    options = {"split_bytes": 20_000} if by == "size" else {"split_duration": "200ms"}
    with Recorder(folder, window="20ms", lateness="40ms", **options) as recorder:
        recorder.add_stream("a", codec="lz4")
        recorder.add_stream("imu", dtype="<u4", packed=True)
        for n in range(1000):
            recorder.write("a", (n ^ 3) * MS, np.random.default_rng(n).bytes(100))
            recorder.write("imu", n * MS, np.uint32(n))
    parts = [OpenedRecording(path) for path in sorted(folder.iterdir())]
    assert [path.name for path in sorted(folder.iterdir())] == [f"part-{n:05d}.hfr" for n in range(len(parts))]
    assert len(parts) >= 4 and all(part.streams == parts[0].streams for part in parts)
    found = sorted(row for part in parts for row in part.rows("a"))
    assert [row[2] for row in found] == list(range(1000))
    times = [time for part in parts for time, _ in part.frames("a")]
    assert times == [n * MS for n in range(1000)]
    samples = [np.frombuffer(data, p.streams["imu"].dtype)["value"] for p in parts for _, data in p.frames("imu")]
    assert np.concatenate(samples).tolist() == list(range(1000))
    assert all(a.header.time_window_end_ns < b.header.time_window_start_ns for a, b in pairwise(parts))
    assert len({part.header.file_id for part in parts}) == len(parts)


def test_parts_of_an_older_recording_never_mix_with_a_new_one(tmp_path: Path) -> None:
    for count in (40, 10):
        with Recorder(tmp_path, window=1, lateness=0, split_bytes=2_000, overwrite=True) as recorder:
            recorder.add_stream("a")
            for n in range(count):
                recorder.write("a", n * 10, b"%d" % count * 500)
        with pytest.raises(UsageError, match="in the way"):
            Recorder(tmp_path, split_bytes=2_000)
    found = [data for path in sorted(tmp_path.iterdir()) for _, data in OpenedRecording(path).frames("a")]
    assert found == [b"10" * 500] * 10


def test_drops_are_stored_in_the_part_in_which_they_happened(tmp_path: Path) -> None:
    opened, open_file = gate()
    recorder = Recorder(
        tmp_path / "drive",
        window=1,
        lateness=0,
        queue_bytes=5_000,
        split_bytes=4_000,
        policy="drop_newest",
        open_file=open_file,
    )
    recorder.add_stream("a")
    for n in range(40):
        recorder.write("a", n * 10, b"x" * 1000)
    opened.set()
    summary = recorder.close()
    stored = [drop for path in sorted((tmp_path / "drive").iterdir()) for drop in OpenedRecording(path).drops]
    assert summary.drops and sum(d.frames for d in stored) == summary.drops[0].frames
    assert summary.frames + summary.drops[0].frames == 40


def test_receive_times_are_those_of_the_call(tmp_path: Path) -> None:
    before = time.time_ns()
    with Recorder(tmp_path / "a.hfr") as recorder:
        recorder.add_stream("a")
        recorder.write("a", 5, b"x")
        recorder.write("a", 6, b"x", receive_ns=77)
    file = OpenedRecording(tmp_path / "a.hfr")
    received = receive_times_from_bytes(file.sections[b"RECV"], entries=2).tolist()
    assert before <= received[0] <= time.time_ns() and received[1] == 77


def test_a_full_disk_ends_the_file_with_whole_windows_and_says_so(tmp_path: Path) -> None:
    faults = Faults(capacity_bytes=200_000)
    recorder = Recorder(tmp_path / "a.hfr", window=10, lateness=0, open_file=faults.opener(), queue_bytes=100_000)
    recorder.add_stream("a")
    with pytest.raises(OSError) as caught:
        for n in range(100_000):
            recorder.write("a", n * 20, b"%d" % n * 200)
            if n == 5_000:
                faults.capacity_bytes = 1_000_000
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError) as again:
        recorder.close()
    safe = tmp_path / "a.hfr"
    if "closed" not in str(again.value) and not safe.exists():
        recover(tmp_path / "a.hfr.tmp", safe)
    frames = OpenedRecording(safe).frames("a")
    assert len(frames) > 100 and frames == [(n * 20, b"%d" % n * 200) for n in range(len(frames))]


def test_room_for_the_index_lets_a_full_disk_end_in_a_finished_file(tmp_path: Path) -> None:
    faults = Faults({("write", 30): errno.ENOSPC})
    recorder = Recorder(tmp_path / "a.hfr", window=10, lateness=0, open_file=faults.opener())
    recorder.add_stream("a")
    with pytest.raises(OSError, match="28 frames, all readable"):
        for n in range(100_000):
            recorder.write("a", n * 20, b"%d" % n * 50)
    with pytest.raises(OSError, match="28 frames, all readable"):
        recorder.close()
    assert len(OpenedRecording(tmp_path / "a.hfr").frames("a")) == 28


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failing_disk_reaches_every_writer_and_nobody_hangs(tmp_path: Path, operation: str) -> None:
    faults = Faults({(operation, 2): errno.EIO})
    recorder = Recorder(
        tmp_path / "a.hfr", window=1, lateness=0, queue_bytes=2_000, sync_every="1ms", open_file=faults.opener()
    )
    recorder.add_stream("a")
    errors: list[OSError] = []

    def feed() -> None:
        try:
            for n in range(100_000):
                recorder.write("a", n * 10, b"x" * 100)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=feed) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(errors) == 4 and all(error.errno == errno.EIO for error in errors)
    with pytest.raises(OSError, match="trainload recover"):
        recorder.close()
    assert (tmp_path / "a.hfr.tmp").exists()


def test_an_exception_in_the_with_block_still_leaves_a_finished_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Recorder(tmp_path / "a.hfr") as recorder:
        recorder.add_stream("a")
        recorder.write("a", 1, b"x")
        raise ZeroDivisionError
    assert OpenedRecording(tmp_path / "a.hfr").frames("a") == [(1, b"x")]


def test_misuse_is_a_usage_error(tmp_path: Path) -> None:
    for options in ({"policy": "never"}, {"queue_bytes": 0}, {"split_bytes": 0}, {"sync_every": "soon"}, {"window": 0}):
        with pytest.raises(UsageError):
            Recorder(tmp_path / "bad.hfr", **options)
    recorder = Recorder(tmp_path / "a.hfr")
    with pytest.raises(UsageError):
        recorder.write("nobody", 0, b"x")
    with pytest.raises(UsageError):
        recorder.add_stream("a", policy="never")
    recorder.add_stream("a")
    with pytest.raises(UsageError):
        recorder.write("a", -1, b"x")
    assert recorder.close() is recorder.close()
    with pytest.raises(UsageError, match="closed"):
        recorder.write("a", 0, b"x")
    assert len(OpenedRecording(tmp_path / "a.hfr").index) == 0


def test_streams_may_be_added_while_frames_come(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.hfr", window=10) as recorder:
        for n in range(20):
            recorder.add_stream(f"s{n}")
            for k in range(20):
                recorder.write(f"s{n}", (n * 20 + k) * 10, b"x")
    file = OpenedRecording(tmp_path / "a.hfr")
    assert len(file.streams) == 20 and len(file.index) == 400


def test_statistics_while_it_runs(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.hfr", window="10ms", lateness=0)
    recorder.add_stream("a")
    recorder.stats()
    for n in range(100):
        recorder.write("a", n * MS, bytes(1000))
    wait_until(lambda: recorder.stats().streams[0].frames == 100)
    wait_until(lambda: recorder.stats().windows == 9)  # the last frame is counted before it closes a window
    stats = recorder.stats()
    assert (stats.streams[0].bytes, stats.queue_frames, stats.queue_bytes, stats.dropped) == (100_000, 0, 0, 0)
    assert stats.streams[0].rate_hz > 0 and stats.megabytes_per_s > 0 and stats.windows == 9
    recorder.close()
    assert recorder.stats().committed_windows <= recorder.stats().windows == 10


def test_what_the_sensors_lost_shows_while_it_runs(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.hfr") as recorder:
        recorder.add_stream("a")
        recorder.add_stream("imu", dtype="<u4", packed=True)
        for number in (7, 8, 11, 10, 12):
            recorder.write("a", number, b"x", stream_index=number)
            recorder.write("imu", number, np.uint32(0), stream_index=number)
        assert [stream.lost for stream in recorder.stats().streams] == [2, 2]


def test_every_drop_is_in_the_summary(tmp_path: Path) -> None:
    file = fill(tmp_path, "drop_newest", 30)
    assert file.drops == [Drop(0, "drop_newest", 30 - len(file.rows("a")), file.drops[0].bytes)]
