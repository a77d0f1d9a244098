"""Recordings are aligned from the file and from the command line."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import trainload as tl
from present import present
from trainload.cli.app import main
from trainload.errors import UsageError
from trainload.recordings.aligning.recording import RecordingTimes
from trainload.recordings.writing.writer import HyperframeWriter

MS = 1_000_000


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


START = 1_700_000_000_000_000_000
IMU = np.dtype([("rate", "<f4", 3), ("count", "<i4")])


@pytest.fixture(scope="module")
def drive_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s: lidar 10 Hz with 50 ms sweeps, camera 30 Hz 4 ms late, packed IMU 200 Hz, a host-stamped GPS."""
    path = tmp_path_factory.mktemp("align") / "drive.hfr"
    with HyperframeWriter(path) as writer:
        writer.add_stream("lidar", kind="lidar", dtype="<f4", shape=(-1, 4), frame_duration="50ms")
        writer.add_stream("camera", kind="camera", encoding="jpeg")
        writer.add_stream("imu", kind="imu", dtype=IMU, packed=True)
        writer.add_stream("odom", dtype=np.dtype([("x", "<f8")]))
        writer.add_stream("gps", clock="host")
        for k in range(20):
            writer.append("lidar", START + k * 100 * MS, np.ones((5, 4), "<f4"))
            writer.append("gps", START + k * 100 * MS + 30 * MS, b"gps")
            writer.append(
                "odom", START + k * 100 * MS, np.array([(k,)], [("x", "<f8")]), receive_ns=START + k * 101 * MS
            )
        for k in range(60):
            time = START + k * 100 * MS // 3 + 4 * MS
            writer.append("camera", time, b"jpeg", receive_ns=time + 20 * MS, duration_ns=8 * MS)
        for k in range(400):
            sample = np.zeros(1, IMU)
            sample["rate"], sample["count"] = k, k
            writer.append("imu", START + k * 5 * MS, sample)
    return path


def test_a_recording_is_aligned_as_arrays_are(drive_path):
    using = {"camera": tl.Interval(), "imu": tl.Interpolate(), "odom": tl.Interpolate()}
    with tl.open_recording(drive_path) as drive:
        pairs = tl.align(drive, every="40ms", using=using)
        assert len(pairs) == 50
        inside = pairs.matches["imu"].matched
        assert inside.sum() == 50
        expected = (pairs.times - START) / (5 * MS)
        assert np.allclose(pairs.values("imu")["rate"][:, 1], expected)
        assert np.array_equal(pairs.values("imu")["count"], np.rint(expected))
        odom = pairs.matches["odom"].matched
        assert np.allclose(pairs.values("odom")["x"][odom], ((pairs.times - START) / (100 * MS))[odom])
        assert present(pairs.matches["camera"].overlap_ns).max() == 8 * MS
        assert "received later" in str(pairs.report())


def test_pairs_of_a_recording_pickle_as_its_path(drive_path):
    with tl.open_recording(drive_path) as drive:
        pairs = tl.align(drive, to="lidar", using={"imu": tl.Interpolate()})
        expected, data = pairs.values("imu"), pickle.dumps(pairs)
    again = pickle.loads(data)
    assert np.array_equal(again.values("imu"), expected)
    again.recording.reader.close()


def test_pictures_cannot_be_interpolated(drive_path):
    with tl.open_recording(drive_path) as drive, pytest.raises(UsageError, match="jpeg"):
        tl.align(drive, to="lidar", using={"camera": tl.Interpolate()}).values("camera")


def test_a_host_stamped_stream_of_a_file_is_refused(drive_path):
    with tl.open_recording(drive_path) as drive, pytest.raises(UsageError, match="host-stamped gps"):
        tl.align(drive, to="lidar")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs the command line in this process."""

    def call(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["trainload", "align", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return Done(end.value.code, out, err)  # type: ignore[arg-type]

    return call


def test_the_command_prints_writes_and_gates(run, drive_path, tmp_path):
    using = ["--using", "camera=nearest:20ms", "--using", "imu=interpolate"]
    good = run(
        drive_path,
        "--to",
        "lidar",
        *using,
        "--fail-over",
        "20ms",
        "--json",
        "--png",
        tmp_path / "r.png",
        "--html",
        tmp_path / "r.html",
    )
    assert good.returncode == 0, good.stderr
    facts = json.loads(good.stdout)
    assert facts["streams"][0]["name"] == "camera"
    assert facts["streams"][0]["p50_ns"] == pytest.approx(4 * MS, abs=1)
    assert (tmp_path / "r.png").exists()
    assert (tmp_path / "r.html").exists()
    bad = run(drive_path, "--to", "lidar", *using, "--fail-over", "3ms")
    assert bad.returncode == 1
    assert "camera: max residual 4.000 ms is over 3 ms" in bad.stderr
    assert "p99.9" in bad.stdout


@pytest.mark.parametrize(
    "words", [["--to", "lidar", "--using", "camera"], ["--to", "nobody"], ["--to", "lidar"], [], ["--every", "soon"]]
)
def test_what_cannot_be_aligned_is_a_usage_error(run, drive_path, words):
    assert run(drive_path, *words).returncode == 2


def test_the_sample_of_the_last_possible_time_is_seen(tmp_path: Path) -> None:
    last_ns = (1 << 63) - 1
    with tl.HyperframeWriter(tmp_path / "a.hfr", window="100ms") as writer:
        writer.add_stream("imu", dtype="<f4", packed=True)
        writer.add_stream("pose", dtype="<f4", shape=(1,))
        for time_ns in (5, last_ns):
            writer.append("imu", time_ns, np.float32(1))
            writer.append("pose", time_ns, np.float32(2))
    times = RecordingTimes(tl.open_recording(tmp_path / "a.hfr"))
    assert times.timestamps("imu").tolist() == times.timestamps("pose").tolist() == [5, last_ns]
    assert len(times.values("imu")) == len(times.values("pose")) == 2
