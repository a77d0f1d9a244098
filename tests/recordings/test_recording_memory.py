"""A recording keeps no more in memory the longer it gets, and its file is the same as if it did."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from opened_recording import OpenedRecording
from trainload.recordings.exporters import rewrite
from trainload.recordings.exporters.merge import merge_recordings
from trainload.recordings.format.hyperframe import index_order
from trainload.recordings.format.records import WindowRecord
from trainload.recordings.format.windows import window_table
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing import index_runs, spool
from trainload.recordings.writing.part import Part, StoredFrame
from trainload.recordings.writing.spool import Spool
from trainload.recordings.writing.writer import HyperframeWriter

SIDE = {b"RECV": "<u8", b"DURA": "<u4"}
frames = st.builds(
    StoredFrame,
    st.integers(0, 60) | st.integers(0, (1 << 63) - 1),
    st.sampled_from([0, 3, 9, 65535]),
    st.sampled_from([0, 1, 65]),
    st.integers(0, 5),
    st.binary(max_size=4),
    st.integers(0, 2),
    st.integers(0, 1),
)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def write_part(path: Path, windows: list[list[StoredFrame]], window_ns: int) -> int:
    part = Part(path, window_ns, overwrite=True)
    for some in windows:
        part.write_window(some[0].timestamp_ns, some[0].timestamp_ns, some)
    return part.finalize()


def check_by_sorting_all_at_once(path: Path, window_ns: int) -> int:
    """Index, window table and side sections against those of the whole index in memory; the number of windows."""
    file = OpenedRecording(path)
    records = [one for one in file.records if isinstance(one, WindowRecord) and len(one.entries)]
    entries = np.concatenate([np.empty(0, file.index.dtype), *(one.entries for one in records)])
    order = index_order(entries)
    assert file.index.tobytes() == entries[order].tobytes()
    table = window_table(entries[order], window_ns)
    assert file.sections[b"WNDW"] == table.to_bytes()
    for tag, code in SIDE.items():
        zeros = {one.offset: np.zeros(len(one.entries), code).tobytes() for one in records}
        values = b"".join(dict(one.sections).get(tag, zeros[one.offset]) for one in records)
        expected = np.frombuffer(values, code)[order]
        assert file.sections.get(tag, b"") == (expected.tobytes() if expected.any() else b"")
    if len(table):
        assert file.header.time_window_start_ns == table.start_ns[0]
        assert file.header.time_window_end_ns == table.end_ns[-1]
    return len(table)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    windows=st.lists(st.lists(frames, min_size=1, max_size=7), max_size=12),
    window_ns=st.sampled_from([1, 7, 1 << 40]),
    run_frames=st.integers(1, 9),
    sample_every=st.integers(1, 4),
    kept_bytes=st.sampled_from([0, 100, 1 << 20]),
)
def test_frames_in_any_order_are_indexed_as_if_all_were_sorted_at_once(
    windows: list[list[StoredFrame]], window_ns: int, run_frames: int, sample_every: int, kept_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_runs, "RUN_FRAMES", run_frames)
        patch.setattr(index_runs, "SAMPLE_EVERY", sample_every)
        patch.setattr(spool, "KEPT_BYTES", kept_bytes)
        patch.setattr(spool, "CHUNK_BYTES", 33)
        path = Path(folder) / "a.hfr"
        count = write_part(path, windows, window_ns)
        assert check_by_sorting_all_at_once(path, window_ns) == count
        assert names(Path(folder)) == ["a.hfr"]


def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of 100 frames, and nothing kept in memory but these."""
    monkeypatch.setattr(index_runs, "RUN_FRAMES", 100)
    monkeypatch.setattr(spool, "KEPT_BYTES", 50)


def test_a_clock_that_ran_ahead_once_leaves_a_sorted_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_runs(monkeypatch)
    with HyperframeWriter(tmp_path / "a.hfr", window=50) as writer:
        writer.add_stream("a")
        for n in range(3000):
            writer.append("a", n * 10 + (1_000_000 if n == 200 else 0), b"%d" % n)
    assert writer.parts[0].late["a"] > 2000
    check_by_sorting_all_at_once(tmp_path / "a.hfr", 50)


def test_no_file_beside_the_unfinished_one_is_ever_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_runs(monkeypatch)
    with HyperframeWriter(tmp_path / "a.hfr", window=50) as writer:
        writer.add_stream("a")
        for n in range(2000):
            writer.append("a", n * 10, b"x")
            assert names(tmp_path) == ["a.hfr.tmp"]
    assert names(tmp_path) == ["a.hfr"]


def refuse(**_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_index_that_the_disk_refuses_is_an_error_that_says_what_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_runs(monkeypatch)
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    written = []
    with (
        pytest.raises(OSError, match=r"safe are .*trainload recover") as caught,
        HyperframeWriter(tmp_path / "a.hfr", window=50, lateness=0) as writer,
    ):
        writer.add_stream("a")
        for n in range(2000):
            writer.append("a", n * 10, b"%d" % n)
            written.append((n * 10, b"%d" % n))
    assert caught.value.errno == errno.ENOSPC
    assert names(tmp_path) == ["a.hfr.tmp"]
    monkeypatch.undo()
    report = recover(tmp_path / "a.hfr.tmp", tmp_path / "a.hfr")
    assert report.frames >= 100 and not report.losses
    assert OpenedRecording(tmp_path / "a.hfr").frames("a") == written[: report.frames]


def test_frames_wait_in_memory_while_the_disk_refuses_to_take_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_runs, "RUN_FRAMES", 10)
    monkeypatch.setattr(spool, "KEPT_BYTES", 500)
    part = Part(tmp_path / "a.hfr", 5)
    part.write_window(0, 5, [StoredFrame(n, 0, 1, n, b"x") for n in range(20)])
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", refuse)
        with pytest.raises(OSError, match="safe are 0 whole windows of 0 frames; 1 more were written"):
            part.write_window(20, 25, [StoredFrame(20, 0, 1, 20, b"x")])
    part.write_window(20, 25, [StoredFrame(20, 0, 1, 20, b"x")])
    assert part.finalize() == check_by_sorting_all_at_once(tmp_path / "a.hfr", 5)
    assert len(OpenedRecording(tmp_path / "a.hfr").index) == 21


def test_a_spool_gives_back_what_was_written_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "KEPT_BYTES", 10)
    monkeypatch.setattr(spool, "CHUNK_BYTES", 4)
    held = Spool(tmp_path)
    for offset, data in ((4, b"efgh"), (0, b"abcd"), (20, b"uv"), (8, b"ijkl")):
        held.write_at(offset, data)
    held.append(b"wx")
    assert b"".join(held.chunks()) == b"abcdefghijkl\0\0\0\0\0\0\0\0uvwx" and held.size == 24
    assert held.read_at(5, 3) == b"fgh"
    held.close()
    assert names(tmp_path) == []


def test_a_merge_in_pieces_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uuid.uuid4", lambda: UUID(int=4))
    rng = random.Random(4)
    for name in ("a", "b"):
        with HyperframeWriter(tmp_path / f"{name}.hfr", window=50) as writer:
            for stream in ("x", name):
                writer.add_stream(stream)
            for n in range(500):
                writer.append(rng.randrange(2), n * 10 + rng.randrange(200), b"%d" % n, receive_ns=n)
    drives = [tl.open_recording(tmp_path / name) for name in ("a.hfr", "b.hfr", "a.hfr")]
    whole = merge_recordings(drives, tmp_path / "whole.hfr", window=70)
    monkeypatch.setattr(rewrite, "PIECE_FRAMES", 9)
    monkeypatch.setattr(rewrite, "SAMPLE_EVERY", 2)
    seen: list[tuple[int, int]] = []
    pieces = merge_recordings(drives, tmp_path / "pieces.hfr", window=70, progress=lambda *now: seen.append(now))
    assert (tmp_path / "pieces.hfr").read_bytes() == (tmp_path / "whole.hfr").read_bytes()
    assert pieces.duplicates == whole.duplicates > 400 and seen[-1] == (1500, 1500)


CHILD = """
import sys
from pathlib import Path
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.storage.atomic import AtomicFile

class Unsynced(AtomicFile):
    def sync(self):
        return

path, frames = Path(sys.argv[1]), int(sys.argv[2])
with HyperframeWriter(path, open_file=lambda path: Unsynced(path, keep=True), overwrite=True) as writer:
    for stream in range(5):
        writer.add_stream(str(stream))
    for n in range(frames):
        writer.append(n % 5, n * 200_000, b"x" * 16, receive_ns=n * 200_000 + 9)
recover(path, path.with_suffix(".recovered"), overwrite=True)
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_memory_of_writing_and_recovering_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    peaks = []
    for frames_written in (130_000, 330_000):
        command = [sys.executable, "-c", CHILD, str(tmp_path / "a.hfr"), str(frames_written)]
        peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    assert peaks[1] - peaks[0] < 20 << 10  # KiB; 300 bytes per frame would be 60 MB
