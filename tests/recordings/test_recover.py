"""Recovery: damage of every kind, and the promise that the original stays as it is."""

from __future__ import annotations

import errno
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from isal import isal_zlib
from typer.testing import CliRunner

from opened_recording import OpenedRecording
from published_writer import PublishedWriter
from trainload import FormatError, UsageError
from trainload.cli.app import app
from trainload.cli.recover import recover as _command  # noqa: F401 - registers it
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format.records import WindowRecord
from trainload.recordings.format.sections import durations_from_bytes, meta_from_bytes, receive_times_from_bytes
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading import tables
from trainload.recordings.recovering import file_tables
from trainload.recordings.recovering.recheck import EntrySum, recheck
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing.part import Part, StoredFrame
from trainload.recordings.writing.writer import HyperframeWriter

MS = 1_000_000


def payload(number: int) -> bytes:
    return b"picture %d " % number * 60


def write_recording(path: Path, seconds: int = 2) -> None:
    with HyperframeWriter(path, meta={"car": "red"}, lateness=0) as writer:
        writer.add_stream("cam", encoding="jpeg", calibration={"f": 700})
        writer.add_stream("lidar", dtype="<f4", codec="zstd", shuffle=True)
        writer.add_stream("imu", dtype="<u4", packed=True, clock="host")
        for tick in range(seconds * 200):
            time = tick * 5 * MS
            writer.append("imu", time, np.uint32(tick), receive_ns=time + 9)
            if tick % 6 == 0:
                writer.append("cam", time, payload(tick // 6), receive_ns=time + 7, key_frame=tick % 12 == 0)
            if tick % 20 == 0:
                writer.append("lidar", time, np.arange(300, dtype="<f4") + tick, duration_ns=3)
            if tick % 100 == 99:
                writer.append("cam", time - 300 * MS, b"late", stream_index=1_000 + tick)


def test_a_whole_recording_comes_back_as_it_was(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.hfr")
    report = recover(tmp_path / "a.hfr", tmp_path / "b.hfr")
    before, after = OpenedRecording(tmp_path / "a.hfr"), OpenedRecording(tmp_path / "b.hfr")
    assert report.ended_in_order and report.losses == () and report.frames == len(before.index)
    for name in ("stream_id", "flags", "stream_index", "timestamp_ns", "byte_size", "crc"):
        assert np.array_equal(before.index[name], after.index[name])
    assert after.streams == before.streams
    for name in before.streams:
        assert after.frames(name) == before.frames(name)
    for tag, parse in ((b"RECV", receive_times_from_bytes), (b"DURA", durations_from_bytes)):
        told, found = (parse(file.sections[tag], entries=len(before.index)) for file in (before, after))
        assert np.array_equal(told, found) and told.any()
    assert after.header.window_ns == before.header.window_ns
    assert np.array_equal(after.windows.count, before.windows.count)
    assert meta_from_bytes(after.sections[b"META"]) == {"car": "red", "recovered_from": "a.hfr"}


def windows_of(path: Path) -> list[WindowRecord]:
    return [one for one in OpenedRecording(path).records if isinstance(one, WindowRecord)]


@pytest.mark.parametrize("keep_header", [True, False])
def test_every_truncation_gives_the_whole_windows_before_it(tmp_path: Path, keep_header: bool) -> None:
    write_recording(tmp_path / "a.hfr", seconds=1)
    data, windows = (tmp_path / "a.hfr").read_bytes(), windows_of(tmp_path / "a.hfr")
    rng = random.Random(5)
    for _ in range(60):
        size = rng.randint(512, len(data))
        cut = data[:size] if keep_header else bytes(512) + data[512:size]
        (tmp_path / "cut").write_bytes(cut)
        whole = [one for one in windows if not one.last and frames_end(one) <= size]
        try:
            report = recover(tmp_path / "cut", tmp_path / "b.hfr", overwrite=True)
        except FormatError:
            assert not whole
            continue
        assert report.windows - report.partial_windows == len(whole) and report.partial_windows <= 1
        found = OpenedRecording(tmp_path / "b.hfr")
        assert {(r[0], r[3], r[6]) for one in whole for r in one.entries.tolist()} <= {
            (r[0], r[3], r[6]) for r in found.index.tolist()
        }
        assert (tmp_path / "cut").read_bytes() == cut


def frames_end(record: WindowRecord) -> int:
    return max(offset + size for _, _, _, _, offset, size, _ in record.entries.tolist())


def test_a_damaged_frame_is_left_out_and_named(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.hfr")
    file = OpenedRecording(tmp_path / "a.hfr")
    _, _, number, time, offset, size, _ = file.rows("cam")[10]
    data = bytearray(file.data)
    data[offset + size // 2] ^= 1
    (tmp_path / "hurt").write_bytes(data)
    report = recover(tmp_path / "hurt", tmp_path / "b.hfr")
    (loss,) = report.losses
    assert (loss.offset, loss.size, loss.from_ns, loss.to_ns, loss.frames) == (offset, size, time, time, {"cam": 1})
    after = OpenedRecording(tmp_path / "b.hfr")
    assert [row[2] for row in after.rows("cam")] == [row[2] for row in file.rows("cam") if row[2] != number]
    assert after.frames("lidar") == file.frames("lidar")


def test_a_damaged_record_costs_its_window_and_the_hole_says_what_is_missing(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.hfr")
    windows = windows_of(tmp_path / "a.hfr")
    lost = windows[7]
    data = bytearray((tmp_path / "a.hfr").read_bytes())
    data[lost.offset + 100] ^= 1
    data[100] ^= 1  # the header too, so that the index is of no help
    (tmp_path / "hurt").write_bytes(data)
    report = recover(tmp_path / "hurt", tmp_path / "b.hfr")
    (loss,) = report.losses
    assert (loss.offset, loss.size) == (lost.offset, lost.head.extent_size)
    assert (loss.from_ns, loss.to_ns) == (windows[6].head.end_ns, windows[8].head.start_ns)
    on_time = [row for row in lost.entries.tolist() if not row[1] & hfrm.LATE]
    assert loss.frames["imu"] == sum(row[0] == 2 for row in on_time)
    assert report.windows == len(windows) - 2 and report.ended_in_order


@pytest.mark.parametrize("which", [0, 7, -1])
def test_a_good_index_names_the_frames_whose_record_is_damaged(tmp_path: Path, which: int) -> None:
    write_recording(tmp_path / "a.hfr")
    before = OpenedRecording(tmp_path / "a.hfr")
    data = bytearray(before.data)
    data[windows_of(tmp_path / "a.hfr")[which].offset] ^= 1
    (tmp_path / "hurt").write_bytes(data)
    report = recover(tmp_path / "hurt", tmp_path / "b.hfr")
    after = OpenedRecording(tmp_path / "b.hfr")
    assert report.losses == () and report.ended_in_order and report.frames == len(before.index)
    for name in before.streams:
        assert after.frames(name) == before.frames(name)
    assert after.sections[b"RECV"] == before.sections[b"RECV"] and after.sections[b"DURA"] == before.sections[b"DURA"]


def test_sections_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    part = Part(tmp_path / "a.hfr", 100)
    part.set_streams([StreamInfo(0, "a")])
    part.keep_sections([(b"XTRA", b"from the future")])
    part.write_window(0, 100, [StoredFrame(5, 0, 1, 0, b"x")])
    part.finalize()
    recover(tmp_path / "a.hfr", tmp_path / "b.hfr")
    assert OpenedRecording(tmp_path / "b.hfr").sections[b"XTRA"] == b"from the future"


def test_a_frame_in_a_hole_that_is_damaged_itself_is_named(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.hfr")
    lost = windows_of(tmp_path / "a.hfr")[5]
    frame = lost.entries.tolist()[2]
    data = bytearray((tmp_path / "a.hfr").read_bytes())
    data[lost.offset] ^= 1
    data[frame[4]] ^= 1
    (tmp_path / "hurt").write_bytes(data)
    report = recover(tmp_path / "hurt", tmp_path / "b.hfr")
    assert [(loss.offset, loss.size, sum(loss.frames.values())) for loss in report.losses] == [(frame[4], frame[5], 1)]


def test_without_any_stream_table_frames_still_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.hfr"
    write_recording(path)
    first = windows_of(path)[0]
    data = bytearray(path.read_bytes()[: windows_of(path)[-1].offset])  # the end record has a table too
    data[first.offset] ^= 1
    (tmp_path / "hurt").write_bytes(data)
    report = recover(tmp_path / "hurt", tmp_path / "b.hfr")
    after = OpenedRecording(tmp_path / "b.hfr")
    assert sorted(after.streams) == ["stream-0", "stream-1", "stream-2"]
    assert report.windows == len(windows_of(path)) - 2


@pytest.mark.parametrize("seed", range(30))
def test_any_damage_gives_a_checked_file_or_a_format_error(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    write_recording(tmp_path / "a.hfr", seconds=1)
    file = OpenedRecording(tmp_path / "a.hfr")
    known = {(row[0], row[3], row[6]) for row in file.index.tolist()}
    data = bytearray(file.data)
    for _ in range(rng.randint(1, 30)):
        at, size = rng.randrange(len(data)), rng.choice((1, 1, 8, 500, 5000))
        data[at : at + size] = rng.randbytes(min(size, len(data) - at))
    (tmp_path / "hurt").write_bytes(data)
    try:
        recover(tmp_path / "hurt", tmp_path / "b.hfr")
    except FormatError:
        return
    after = OpenedRecording(tmp_path / "b.hfr")
    assert {(row[0], row[3], row[6]) for row in after.index.tolist()} <= known
    assert (tmp_path / "hurt").read_bytes() == bytes(data)


@pytest.mark.parametrize("content", [b"", b"HFRM", bytes(10_000), random.Random(0).randbytes(10_000)])
def test_a_file_without_windows_is_a_format_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FormatError, match="nothing to recover"):
        recover(tmp_path / "a", tmp_path / "b.hfr")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_plain_file_has_no_records_to_recover_from(tmp_path: Path) -> None:
    writer = PublishedWriter(tmp_path / "plain.hfr")
    writer.append(0, 1, b"x")
    writer.finalize()
    with pytest.raises(FormatError, match="nothing to recover"):
        recover(tmp_path / "plain.hfr", tmp_path / "b.hfr")


def test_the_target_is_never_the_source_nor_overwritten_by_accident(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.hfr", seconds=1)
    before = (tmp_path / "a.hfr").read_bytes()
    for target in (tmp_path / "a.hfr", tmp_path / "link.hfr"):
        if target.name == "link.hfr":
            target.hardlink_to(tmp_path / "a.hfr")
        for overwrite in (False, True):
            with pytest.raises(UsageError, match="exists"):
                recover(tmp_path / "a.hfr", target, overwrite=overwrite)
    assert (tmp_path / "a.hfr").read_bytes() == before


def test_an_unfinished_recording_recovers_under_its_own_name(tmp_path: Path) -> None:
    writer = HyperframeWriter(tmp_path / "a.hfr", window=10, lateness=0)
    writer.add_stream("a")
    for n in range(5):
        writer.append("a", n * 20, b"x")
    writer.detach()
    unfinished = (tmp_path / "a.hfr.tmp").read_bytes()
    seen: list[tuple[int, int]] = []
    report = recover(tmp_path / "a.hfr.tmp", tmp_path / "a.hfr", progress=lambda done, all: seen.append((done, all)))
    assert report.windows == 4 and not report.ended_in_order
    assert seen[-1] == (len(unfinished), len(unfinished))
    assert (tmp_path / "a.hfr.tmp").read_bytes() == unfinished
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.hfr", "a.hfr.tmp"]


def test_a_copy_that_differs_from_the_original_never_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_recording(tmp_path / "a.hfr", seconds=1)
    write_window = Part.write_window

    def lose_one(part: Part, start: int, end: int, frames: list[StoredFrame]) -> None:
        write_window(part, start, end, frames[1:])

    monkeypatch.setattr(Part, "write_window", lose_one)
    with pytest.raises(FormatError, match="every frame that was copied"):
        recover(tmp_path / "a.hfr", tmp_path / "b.hfr")
    assert [path.name for path in tmp_path.iterdir()] == ["a.hfr"]


def test_entries_are_told_apart_but_not_their_order() -> None:
    rng = np.random.default_rng(3)
    rows = np.frombuffer(rng.bytes(50 * hfrm.INDEX_ENTRY_BYTES), hfrm.INDEX_DTYPE)
    told = EntrySum()
    told.add(rows)
    again = EntrySum()
    for part in (rows[30:][::-1], rows[:30]):
        again.add(part)
    assert again == told
    for bit in range(0, rows.nbytes * 8, 7):
        changed = bytearray(rows.tobytes())
        changed[bit // 8] ^= 1 << bit % 8
        other = EntrySum()
        other.add(np.frombuffer(bytes(changed), hfrm.INDEX_DTYPE))
        assert other != told
    placed = rows.copy()
    placed["byte_offset"] += 64
    sums = [EntrySum(), EntrySum()]
    for one, some in zip(sums, (rows, placed)):
        one.add(some, placed=False)
    assert sums[0] == sums[1]


def test_an_index_that_names_wrong_places_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.hfr"
    write_recording(path, seconds=1)
    file = OpenedRecording(path)
    copied = EntrySum()
    copied.add(file.index, placed=False)
    recheck(path, copied)
    wrong = file.index.copy()
    wrong["byte_offset"][[3, 4]] = wrong["byte_offset"][[4, 3]]
    header = replace(file.header, index_crc=isal_zlib.crc32(wrong.tobytes()))
    data = bytearray(file.data)
    at = header.index_offset
    data[at : at + header.index_size] = wrong.tobytes()
    data[: hfrm.HEADER_BYTES] = header.to_bytes()
    path.write_bytes(data)
    with pytest.raises(FormatError, match="every frame that was indexed"):
        recheck(path, copied)


def test_a_good_index_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_ROWS", 7)
    monkeypatch.setattr(file_tables, "CHUNK_BYTES", 100)
    test_a_good_index_names_the_frames_whose_record_is_damaged(tmp_path, 7)


def test_a_disk_that_fails_during_recovery_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_recording(tmp_path / "a.hfr", seconds=1)

    def full(fd: int, data: object, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match="No space"):
        recover(tmp_path / "a.hfr", tmp_path / "b.hfr")
    assert [path.name for path in tmp_path.iterdir()] == ["a.hfr"]


def test_the_command_reports_and_keeps_its_exit_codes(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.hfr", seconds=1)
    result = CliRunner().invoke(app, ["recover", str(tmp_path / "a.hfr"), str(tmp_path / "b.hfr"), "--json"])
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["ended_in_order"], facts["losses"]) == (0, True, [])
    again = CliRunner().invoke(app, ["recover", str(tmp_path / "a.hfr"), str(tmp_path / "b.hfr")])
    assert isinstance(again.exception, UsageError)
    data = bytearray((tmp_path / "a.hfr").read_bytes())
    data[windows_of(tmp_path / "a.hfr")[2].offset + 20] ^= 1
    data[100] ^= 1
    (tmp_path / "hurt").write_bytes(data)
    told = CliRunner().invoke(app, ["recover", str(tmp_path / "hurt"), str(tmp_path / "c.hfr")])
    assert told.exit_code == 0 and "missing: " in told.stdout and "of imu" in told.stdout
