"""The import as a whole: windows, facts, the command, memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from trainload.cli.app import main
from trainload.formats.limits import MAX_SECTION_BYTES
from trainload.recordings.importers.columns import Column, ColumnSource, row_loader
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.source import SourceStream, Span
from trainload.recordings.importers.window_length import MAX_WINDOW_NS, choose_window_length

MS = 1_000_000


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs the command line in this process."""

    def call(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["trainload", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return Done(end.value.code, out, err)  # type: ignore[arg-type]

    return call


@given(st.floats(0.001, 1300), st.integers(10, 10_000))
@settings(deadline=None)
def test_the_automatic_window_is_one_to_two_periods_of_the_slowest_stream(period_ms, frames):
    period = round(period_ms * MS)
    spans = {
        "slow": Span(frames, 0, period * (frames - 1)),
        "fast": Span(10 * frames, 0, period * (frames - 1)),
        "map": Span(2, 0, 10**15),
    }
    choice = choose_window_length(spans)
    assert period <= choice.window_ns <= 2 * period
    assert "slow" in choice.reason


def test_the_automatic_window_has_a_bound_and_a_default():
    assert choose_window_length({"gps": Span(100, 0, 10**12)}).window_ns == MAX_WINDOW_NS
    assert choose_window_length({}).window_ns == 100 * MS
    assert choose_window_length({"same": Span(50, 7, 7)}).window_ns == 100 * MS


def test_a_day_at_1_khz_gets_windows_that_fit_into_one_file():
    day = 86_400_000
    choice = choose_window_length({"imu": Span(day, 0, (day - 1) * MS)})
    assert choice.window_ns == 24 * MS and "too many for one file" in choice.reason
    assert day * MS // choice.window_ns * (32 + 8 * 2) < MAX_SECTION_BYTES // 2


def test_a_lidar_of_10_hz_gets_150_ms():
    assert choose_window_length({"lidar": Span(101, 0, 10_000 * MS)}).window_ns == 150 * MS


def test_times_that_do_not_fit_are_counted_not_written(tmp_path):
    rows = np.arange(3.0)
    column = Column(SourceStream("a", dtype=rows.dtype), np.array([-5, 0, 5]), row_loader(rows))
    report = import_source(ColumnSource([column]), tmp_path / "a.hfr")
    assert report.summary.frames == 2
    assert report.damage.frames == 1


def test_the_command_says_window_clocks_and_losses(run, tmp_path):
    root = tmp_path / "mav0"
    for sensor, step in (("imu0", 5), ("pose0", 50)):
        (root / sensor).mkdir(parents=True)
        lines = "".join(f"{k * step * MS},{k}\n" for k in range(100))
        (root / sensor / "data.csv").write_text("#timestamp [ns],x [m]\n" + lines)
    good = run("import", "euroc", root, tmp_path / "a.hfr", "--json")
    assert good.returncode == 0, good.stderr
    facts = json.loads(good.stdout)
    assert 50 * MS <= facts["window_ns"] <= 100 * MS
    assert facts["streams"]["imu0"]["clock"] == "hardware"
    with (root / "imu0" / "data.csv").open("a") as file:
        file.write("soon,1\n")
    bad = run("import", "euroc", root, tmp_path / "b.hfr")
    assert bad.returncode == 1
    assert "could not be read: 1 frames" in bad.stdout
    assert "slowest stream is pose0" in bad.stdout
    with tl.open_recording(tmp_path / "b.hfr") as drive:
        assert len(tl.align(drive, to="pose0").matches["imu0"]) == 100
    assert run("import", "euroc", root, tmp_path / "a.hfr").returncode == 2  # it exists
    assert run("import", "dvd", root, tmp_path / "c.hfr").returncode == 2
    exported = run("export", "mcap", tmp_path / "a.hfr", tmp_path / "a.mcap", "--json")
    assert exported.returncode == 0, exported.stderr
    assert json.loads(exported.stdout)["messages"] > 0


_IMPORT_AND_MEASURE = """
import re, sys
from pathlib import Path
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.import_source import import_source
import_source(McapSource(sys.argv[1]), sys.argv[2])
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""  # not ru_maxrss: a child inherits that of the process that started it


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_memory_does_not_grow_with_the_log(tmp_path):
    mcap_writer = pytest.importorskip("mcap.writer")
    peaks = {}
    for megabytes in (16, 160):
        path = tmp_path / f"{megabytes}.mcap"
        with path.open("wb") as file:
            writer = mcap_writer.Writer(file, compression=mcap_writer.CompressionType.NONE)
            writer.start()
            channel = writer.register_channel("/camera", "raw", 0)
            for k in range(megabytes):
                writer.add_message(channel, k * 33 * MS, bytes(1 << 20), k * 33 * MS)
            writer.finish()
        command = [sys.executable, "-c", _IMPORT_AND_MEASURE, str(path), str(tmp_path / f"{megabytes}.hfr")]
        peaks[megabytes] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        path.unlink()
    assert peaks[160] < peaks[16] + 32
    assert peaks[160] < 500


def test_a_recording_is_shown_by_rerun(tmp_path):
    pytest.importorskip("rerun")
    from trainload.recordings.exporters.rerun import export_rerun
    from trainload.recordings.writing.writer import HyperframeWriter

    path = tmp_path / "drive.hfr"
    with HyperframeWriter(path) as writer:
        writer.add_stream("camera", kind="camera", encoding="jpeg")
        writer.add_stream("lidar", kind="lidar", dtype="<f4", shape=(-1, 4))
        writer.add_stream("imu", kind="imu", dtype=np.dtype([("w", "<f8", 3)]), packed=True)
        writer.add_stream("can", kind="can")
        for k in range(5):
            writer.append("camera", k * MS, b"\xff\xd8\xff", receive_ns=k * MS + 5)
            writer.append("lidar", k * MS, np.ones((3, 4), "<f4"))
            writer.append("imu", k * MS, np.zeros(1, [("w", "<f8", 3)]))
            writer.append("can", k * MS, b"\1\2")
    with tl.open_recording(path) as drive:
        report = export_rerun(drive, tmp_path / "drive.rrd")
    assert (tmp_path / "drive.rrd").stat().st_size > 500
    assert report.frames["camera"] == report.frames["lidar"] == 5
    assert "can" in report.left_out


def test_without_rerun_the_export_says_what_to_install(tmp_path, monkeypatch):
    from trainload.errors import UsageError
    from trainload.recordings.exporters.rerun import export_rerun
    from trainload.recordings.writing.writer import HyperframeWriter

    with HyperframeWriter(tmp_path / "drive.hfr"):
        pass
    monkeypatch.setitem(sys.modules, "rerun", None)
    with tl.open_recording(tmp_path / "drive.hfr") as drive, pytest.raises(UsageError, match="rerun-sdk"):
        export_rerun(drive, Path(tmp_path / "drive.rrd"))
