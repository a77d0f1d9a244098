"""verify, info, slice, merge and extract of recordings: what they say and what they write."""

from __future__ import annotations

import csv
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from drive_data import SECOND, Written, write_drive
from published_writer import PublishedWriter
from trainload.cli import extract, info, merge, slice, verify  # noqa: F401 (each registers its verb)
from trainload.cli.app import app
from trainload.errors import FormatError, UsageError
from trainload.formats.sections import sections_from_bytes
from trainload.recordings.checking.hyperframe import verify_hyperframe
from trainload.recordings.exporters.frame_files import extract_frames, stream_paths
from trainload.recordings.exporters.merge import merge_recordings
from trainload.recordings.exporters.rewrite import Selection, rewrite
from trainload.recordings.exporters.slice import slice_recording
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.verify_any import verify as verify_any


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_drive(tmp_path_factory.mktemp("good") / "good.hfr")


@pytest.fixture
def drive(good: Written) -> HyperframeReader:
    return HyperframeReader(good.path)


def everything(reader: HyperframeReader, start: int = 0, end: int = 1 << 62) -> list[tuple[Any, ...]]:
    """All that a frame is, for every frame in a span."""
    found = []
    for name in reader.streams:
        receive, durations = reader.receive_times(name), reader.durations(name)
        for i, time in enumerate(reader.timestamps(name).tolist()):
            frame = reader.read_at_index(name, i)
            side = [0 if column is None else int(column[i]) for column in (receive, durations)]
            if start <= time < end:
                found.append((time, name, frame.stream_index, frame.flags, bytes(frame.data), *side))
    return sorted(found)


# verify


def test_a_good_recording_verifies_and_says_what_was_checked(good: Written) -> None:
    report = verify_hyperframe(good.path)
    assert report.good
    assert report.checked["frames"] == report.checked["payload checksums"] == 10 + 30 + 50 + 10
    assert report.checked["windows"] == report.checked["window records"] == 10


def test_every_flipped_bit_that_is_not_fill_is_found_in_its_place(good: Written, tmp_path: Path) -> None:
    data = good.path.read_bytes()
    reader = HyperframeReader(good.path)
    index, header = reader.files[0].index, reader.header
    frames = [(int(row["byte_offset"]), int(row["byte_offset"]) + int(row["byte_size"])) for row in index]
    rng = np.random.default_rng(1)
    places = [
        *((f"frame {n}", int(rng.integers(*frames[n]))) for n in range(0, len(frames), 9)),
        ("header", 41),
        ("header", 300),
        ("index", header.index_offset + 77),
        ("section", header.sections_offset + 30),
        ("record", 600),
    ]
    for what, place in places:
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        (tmp_path / "bad.hfr").write_bytes(damaged)
        findings = verify_hyperframe(tmp_path / "bad.hfr").findings
        assert findings, f"{what}: byte {place} was not noticed"
        if what.startswith("frame"):
            [finding] = findings
            assert finding.offset is not None and finding.end is not None
            assert finding.offset <= place < finding.end
            assert finding.source in str(finding)


def test_verify_goes_on_with_the_window_records_where_the_index_is_broken(good: Written, tmp_path: Path) -> None:
    reader = HyperframeReader(good.path)
    frame = reader.files[0].index[12]
    data = bytearray(good.path.read_bytes())
    data[reader.header.index_offset] ^= 1
    data[int(frame["byte_offset"])] ^= 1
    (tmp_path / "bad.hfr").write_bytes(data)
    report = verify_hyperframe(tmp_path / "bad.hfr")
    assert [finding.rule for finding in report.findings] == [
        "the index's CRC-32 must match",
        "a payload's CRC-32 must match",
    ]
    assert report.findings[1].offset == int(frame["byte_offset"])


def test_overlaps_and_frames_in_the_index_are_findings(tmp_path: Path) -> None:
    writer = PublishedWriter(tmp_path / "plain.hfr")
    for n in range(3):
        writer.append(1, n, bytes(100))
    writer.finalize()
    data = bytearray((tmp_path / "plain.hfr").read_bytes())
    index = HyperframeReader(tmp_path / "plain.hfr").header.index_offset
    struct.pack_into("<I", data, index + 24, 130)  # into the second frame
    struct.pack_into("<I", data, index + 64 + 24, 160)  # into the index
    (tmp_path / "bad.hfr").write_bytes(data)
    rules = [finding.rule for finding in verify_hyperframe(tmp_path / "bad.hfr").findings]
    assert rules == ["frames must not overlap", "a frame must not reach into index or sections"]


def test_a_folder_of_parts_verifies_part_by_part(good: Written, tmp_path: Path) -> None:
    data = good.path.read_bytes()
    (tmp_path / "a.hfr").write_bytes(data)
    (tmp_path / "b.hfr").write_bytes(data[:-1])
    report = verify_any(tmp_path)
    assert {finding.path for finding in report.findings} == {str(tmp_path / "b.hfr")}


# info


def test_facts_measure_rates_jitter_gaps_losses_fill_and_compression(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "a.hfr", window="100ms") as writer:
        steady = writer.add_stream("steady", rate_hz=100, dtype="<f4", codec="zstd", shuffle=True)
        lossy = writer.add_stream("lossy")
        for i in range(100):
            writer.append(steady, i * 10_000_000, np.full(1000, i, "<f4"))
            if not 40 <= i < 60:
                writer.append(lossy, i * 10_000_000 + (1_000_000 if i % 2 else 0), b"x", stream_index=i)
    facts = HyperframeReader(tmp_path / "a.hfr").facts()
    first, second = facts["streams"]
    assert facts["frames"] == 180 and facts["index_bytes"] == 180 * 32
    assert first["rate_hz"] == pytest.approx(100) and first["jitter_ms"] == 0 and first["lost_frames"] == 0
    assert first["compression"]["compressed_frames"] == 100 and first["compression"]["ratio"] < 0.1
    assert first["window_fill"]["share"] == 1
    assert second["lost_frames"] == 20 and second["longest_gap_ms"] == pytest.approx(209, abs=3)
    assert second["longest_gap_at_ns"] == 391_000_000 and second["jitter_ms"] > 0.5
    assert 0.7 < second["window_fill"]["share"] < 1 and second["window_fill"]["least"] == 0
    json.dumps(facts)


def test_4800_frames_have_an_index_of_153600_bytes(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        streams = [writer.add_stream(name) for name in ("lidar", "camera", "imu")]
        for window in range(200):
            for stream, count in zip(streams, (1, 3, 20)):
                for i in range(count):
                    writer.append(stream, window * 100_000_000 + i * 4_000_000, b"frame")
    facts = HyperframeReader(tmp_path / "a.hfr").facts()
    assert (facts["frames"], facts["index_bytes"]) == (4800, 153_600)


# slice and merge


@settings(deadline=None, max_examples=15)
@given(start=st.integers(0, SECOND), length=st.integers(1, SECOND))
def test_a_slice_holds_the_frames_of_its_span_unchanged(start: int, length: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("slice")
    with HyperframeWriter(folder / "in.hfr", window="50ms") as writer:
        streams = [(writer.add_stream(name, codec="lz4"), step) for name, step in (("a", 9_000_000), ("b", 31_000_000))]
        due = sorted((i * step, stream, i) for stream, step in streams for i in range(SECOND // step + 1))
        for time, stream, i in due:
            writer.append(stream, time, b"%d" % i * 20, receive_ns=1 + i, duration_ns=2 * i)
    drive = HyperframeReader(folder / "in.hfr")
    expected = everything(drive, start, start + length)
    if not expected:
        with pytest.raises(UsageError, match="no frame"):
            slice_recording(drive, folder / "out.hfr", start_ns=start, end_ns=start + length)
        return
    summary = slice_recording(drive, folder / "out.hfr", start_ns=start, end_ns=start + length)
    cut = HyperframeReader(folder / "out.hfr")
    assert everything(cut) == expected and summary.frames == len(expected)
    assert verify_hyperframe(folder / "out.hfr").good
    assert len(cut) == summary.windows


def test_a_slice_keeps_streams_meta_and_sections_that_nobody_knows(drive: HyperframeReader, tmp_path: Path) -> None:
    selections = [Selection(file, rows, name) for file in drive.files for name, rows in file.rows.items()]
    rewrite(
        tmp_path / "odd.hfr",
        list(drive.streams.values()),
        selections,
        window_ns=50_000_000,
        meta={"a": [1]},
        unknown=[(b"odd!", b"body")],
    )
    slice_recording(HyperframeReader(tmp_path / "odd.hfr"), tmp_path / "cut.hfr", streams=["camera"])
    cut = HyperframeReader(tmp_path / "cut.hfr")
    assert cut.meta == {"a": [1]} and cut.header.window_ns == 50_000_000
    assert cut.streams == {"camera": drive.streams["camera"]}
    assert cut.files[0].section(b"odd!") == b"body"
    data, header = (tmp_path / "cut.hfr").read_bytes(), cut.header
    body = data[header.sections_offset : header.sections_offset + header.sections_size]
    assert (b"odd!", b"body") in sections_from_bytes(body, path="", offset=0)


def test_a_slice_of_a_delta_stream_starts_with_its_key_frame(tmp_path: Path) -> None:
    with HyperframeWriter(tmp_path / "in.hfr") as writer:
        stream = writer.add_stream("video", encoding="toy")
        for i in range(20):
            writer.append(stream, i, b"%d" % i, key_frame=i % 8 == 0)
    slice_recording(HyperframeReader(tmp_path / "in.hfr"), tmp_path / "out.hfr", start_ns=11, end_ns=14)
    assert HyperframeReader(tmp_path / "out.hfr").timestamps("video").tolist() == [8, 9, 10, 11, 12, 13]


def test_damage_is_not_copied_under_a_new_checksum(good: Written, tmp_path: Path) -> None:
    data = bytearray(good.path.read_bytes())
    data[int(HyperframeReader(good.path).files[0].index[5]["byte_offset"])] ^= 1
    (tmp_path / "bad.hfr").write_bytes(data)
    with pytest.raises(FormatError, match="CRC-32 of frame"):
        slice_recording(HyperframeReader(tmp_path / "bad.hfr", verify="none"), tmp_path / "out.hfr")
    assert not (tmp_path / "out.hfr").exists() and not (tmp_path / "out.hfr.tmp").exists()


def test_slices_that_overlap_merge_into_the_whole_again(drive: HyperframeReader, tmp_path: Path) -> None:
    slice_recording(drive, tmp_path / "a.hfr", end_ns=600_000_000)
    slice_recording(drive, tmp_path / "b.hfr", start_ns=400_000_000)
    parts = [HyperframeReader(tmp_path / name) for name in ("a.hfr", "b.hfr")]
    summary = merge_recordings(parts, tmp_path / "all.hfr")
    whole = HyperframeReader(tmp_path / "all.hfr")
    assert everything(whole) == everything(drive) and summary.duplicates > 0
    assert whole.meta == drive.meta and verify_hyperframe(tmp_path / "all.hfr").good
    assert [len(window.frames()) for window in whole] == [len(window.frames()) for window in drive]


def test_sensors_recorded_apart_merge_by_time(tmp_path: Path) -> None:
    for name, step in (("left", 10), ("right", 15)):
        with HyperframeWriter(tmp_path / f"{name}.hfr", window=30, meta={"car": name}) as writer:
            stream = writer.add_stream(name)  # both have id 0
            for i in range(10):
                writer.append(stream, i * step, name.encode())
    parts = [HyperframeReader(tmp_path / f"{name}.hfr") for name in ("left", "right")]
    merge_recordings(parts, tmp_path / "both.hfr")
    both = HyperframeReader(tmp_path / "both.hfr")
    times = [frame.timestamp_ns for frame in both.frames()]
    assert times == sorted(i * step for step in (10, 15) for i in range(10))
    assert {stream.id for stream in both.streams.values()} == {0, 1}
    assert all(bytes(frame.data).decode() == frame.stream for frame in both.frames())
    assert both.meta["car"] == "left" and len(both.meta["merged_from"]) == 2
    assert not any(Path(other["path"]).is_absolute() for other in both.meta["merged_from"])


def test_one_name_for_two_kinds_of_stream_does_not_merge(tmp_path: Path) -> None:
    for n, dtype in enumerate(("<f4", "<f8")):
        with HyperframeWriter(tmp_path / f"{n}.hfr") as writer:
            writer.append(writer.add_stream("s", dtype=dtype), n, bytes(8))
    with pytest.raises(UsageError, match="'s' is not the same"):
        merge_recordings([HyperframeReader(tmp_path / f"{n}.hfr") for n in (0, 1)], tmp_path / "out.hfr")


# extract


def test_extract_writes_frames_tables_and_the_stream_table(
    drive: HyperframeReader, good: Written, tmp_path: Path
) -> None:
    summary = extract_frames(drive, tmp_path / "out", end_ns=500_000_000)
    assert summary.frames == {"lidar/top": 5, "camera": 15, "odometry": 25, "imu": 5}
    pictures = sorted((tmp_path / "out" / "camera").glob("*.jpg"))
    assert [path.read_bytes() for path in pictures] == [payload for _, payload in good.frames["camera"][:15]]
    cloud = np.load(min((tmp_path / "out" / "lidar" / "top").glob("*.npy")))
    assert cloud.tobytes() == good.frames["lidar/top"][0][1] and cloud.shape == (300, 4)
    with (tmp_path / "out" / "imu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(frame.array()) for frame in drive.read_range("imu", 0, 500_000_000))
    assert list(rows[0])[:3] == ["timestamp_ns", "acceleration.0", "acceleration.1"]
    with (tmp_path / "out" / "camera" / "frames.csv").open() as file:
        listed = list(csv.DictReader(file))
    assert listed[3]["receive_ns"] == str(int(listed[3]["timestamp_ns"]) + 500) and listed[3]["duration_ns"] == "1003"
    assert json.loads((tmp_path / "out" / "recording.json").read_text())["meta"] == {"vehicle": "test"}
    with pytest.raises(UsageError, match="not empty"):
        extract_frames(drive, tmp_path / "out")


def test_no_stream_name_leads_out_of_the_folder_or_into_another_stream() -> None:
    names = ["../../etc/passwd", "/absolute", "a b", "a_b", "..", "", "a/../b", "ok/top"]
    paths = stream_paths([StreamInfo(n, name) for n, name in enumerate(names)])
    assert all(not path.is_absolute() and ".." not in path.parts for path in paths.values())
    assert len(set(paths.values())) == len(names) and paths["ok/top"] == Path("ok/top")


# the command line


def run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout


def test_every_tool_prints_its_facts_as_json(good: Written, tmp_path: Path) -> None:
    code, out = run("info", "--json", good.path)
    assert code == 0 and json.loads(out)["streams"][0]["name"] == "lidar/top"
    code, out = run("verify", "--json", good.path)
    assert code == 0 and json.loads(out)["good"]
    span = ("--from", "200ms", "--to", "600ms", "--stream", "camera")
    code, out = run("slice", good.path, tmp_path / "s.hfr", *span, "--json")
    assert code == 0 and json.loads(out)["frames"] == 12
    code, out = run("merge", tmp_path / "m.hfr", good.path, tmp_path / "s.hfr", "--json")
    assert code == 0 and json.loads(out)["duplicates"] == 12
    code, out = run("extract", good.path, tmp_path / "x", "--stream", "imu", "--json")
    assert code == 0 and json.loads(out)["frames"] == {"imu": 10}


def test_info_shows_every_stream_on_a_terminal(good: Written) -> None:
    code, out = run("info", good.path)
    assert code == 0
    for text in (
        "lidar/top",
        "longest gap",
        "lost 0",
        "10.00 Hz (nominal 10)",
        "codec lz4",
        "windows",
        "20.0 samples each",
    ):
        assert text in out


def test_verify_exits_with_1_for_damage(good: Written, tmp_path: Path) -> None:
    (tmp_path / "cut.hfr").write_bytes(good.path.read_bytes()[:-100])
    code, out = run("verify", tmp_path / "cut.hfr")
    assert code == 1 and "DAMAGED" in out
