"""What a notebook or a debugger shows: what a thing is, in a line or a table, never all its numbers."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from drive_data import write_drive

EVIL = '<script>alert("1")</script>\x1b[31m'
MS = 1_000_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drive(tmp_path_factory.mktemp("good") / "good.hfr").path


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    with tl.HyperframeWriter(tmp_path / "evil.hfr", window="100ms") as writer:
        writer.add_stream(EVIL, dtype="<f4", shape=(1,))
        writer.add_stream("clock", encoding="raw")
        for n in range(50):
            writer.append(EVIL, n * 10 * MS, np.float32(n))
            writer.append("clock", n * 20 * MS, b"x")
    return tmp_path / "evil.hfr"


def test_a_reader_shows_span_streams_and_rates(path: Path) -> None:
    with tl.open_recording(path) as recording:
        shown = repr(recording)
        assert shown.startswith(f"HyperframeReader({str(path)!r}: ") and f"{len(recording.streams)} streams: " in shown
        assert re.search(r"\d+\.\d{3} s, ", shown) and " Hz" in shown and len(shown) < 500
        table = recording._repr_html_()
        assert all(name in table for name in recording.streams) and table.count("<tr>") == len(recording.streams) + 1
    assert "streams" in repr(recording)  # closed


def test_a_copy_that_was_not_used_yet_is_not_opened_to_be_shown(path: Path) -> None:
    copy = pickle.loads(pickle.dumps(tl.open_recording(path)))
    assert repr(copy) == f"HyperframeReader({str(path)!r}: not opened yet)" and "files" not in copy.__dict__


def test_frames_windows_and_pairs_show_what_they_are_and_no_numbers_of_theirs(path: Path) -> None:
    recording = tl.open_recording(path)
    window = recording.window(1)
    name = next(iter(window))
    frame = window[name][0]
    assert repr(frame).startswith(f"Frame({name} number {frame.stream_index} at {frame.timestamp_ns} ns, ")
    assert f"{len(frame.data):,} bytes" in repr(frame) and "memory" not in repr(frame) and len(repr(frame)) < 120
    assert repr(window).startswith("Window(1, ") and f"{name}: {len(window[name])}" in repr(window)
    pairs = tl.align(recording, to=name, allow_host=True)
    report = pairs.report()
    for shown in (repr(pairs), repr(report)):
        assert name in shown and "array" not in shown and len(shown) < 500
    assert repr(pairs).startswith(f"Pairs({len(pairs):,} times of {name}")
    assert repr(report).startswith(f"Report(aligned to {name}: {len(pairs):,} times over ") and " max " in repr(report)
    assert all(f">{stream.name}</td>" in report._repr_html_() for stream in report.streams)


def test_what_shows_in_a_notebook_escapes_the_text_of_files(evil: Path) -> None:
    recording = tl.open_recording(evil)
    report = tl.align(recording, to="clock", allow_host=True).report()
    dataset = tl.WindowDataset(evil)
    for shown in (recording, report, dataset, dataset.report()):
        html = shown._repr_html_()
        assert "<script" not in html and "&lt;script&gt;" in html and "\x1b" not in html
    for each in (recording, recording.window(0), recording.read(EVIL, 0), report, dataset, report.source):
        assert "\x1b" not in repr(each)


def test_a_data_set_shows_what_its_streams_cost(path: Path) -> None:
    dataset = tl.WindowDataset(path)
    table = dataset._repr_html_()
    assert dataset.report().headline in table and all(f">{name}</td>" in table for name in dataset.streams)


def test_a_batch_shows_shapes_and_types(path: Path) -> None:
    batch = next(iter(tl.HyperframeLoader(tl.WindowDataset(path), batch_size=3, vary="list")))
    shown = repr(batch)
    assert shown.startswith("ClipBatch(3 clips; ") and "array(" not in shown and len(shown) < 500
    for name, values in batch.values.items():
        kind = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else f"list of {len(values)}"
        assert f"{name} {kind}" in shown
