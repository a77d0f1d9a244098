"""The simulated rig: repeatable, with the rates, losses, jitter and drift that were asked for; and its command."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from opened_recording import OpenedRecording
from trainload import UsageError
from trainload.cli.app import app
from trainload.cli.record import record  # noqa: F401 - registers the command
from trainload.recordings.writing.recorder import Recorder
from trainload.recordings.writing.simulate import IMU_SAMPLE, START_NS, SimulatedFrame, make_rig, play, simulate


def run(seconds: float = 4.0, seed: int = 0, **options: object) -> list[SimulatedFrame]:
    return list(simulate(make_rig(**options), seconds, seed=seed))  # type: ignore[arg-type]


def of(frames: list[SimulatedFrame], name: str) -> list[SimulatedFrame]:
    return [frame for frame in frames if frame.stream.name == name]


def test_the_same_seed_gives_the_same_frames_and_another_one_others() -> None:
    assert run(1.0, drop=0.1) == run(1.0, drop=0.1)
    assert run(1.0, drop=0.1) != run(1.0, seed=1, drop=0.1)


def test_rates_and_losses_are_as_asked() -> None:
    frames = run(20.0, cameras=1, camera_hz=31, imu_hz=400, drop=0.1)
    assert {frame.stream.kind for frame in frames} == {"camera", "lidar", "imu", "radar", "event"}
    for name, expected in (("camera/0", 620), ("imu", 8000)):
        numbers = [frame.number for frame in of(frames, name)]
        assert abs(len(numbers) / expected - 0.9) < 0.04 and max(numbers) < expected
    assert not of(run(1.0, lidar_hz=0), "lidar/top")


def test_frames_arrive_in_order_while_clocks_drift_apart() -> None:
    frames = run(30.0, jitter="0ms", drift_ppm=100)
    arrivals = [frame.arrival_ns for frame in frames]
    assert arrivals == sorted(arrivals)
    first, last = of(frames, "camera/0")[-1], of(frames, "event/front")[-1]
    assert first.timestamp_ns - START_NS == round(first.number * 1e9 / 30)
    true_ns = round(last.number * 1e9 / 100)
    assert abs((last.timestamp_ns - START_NS) / true_ns - 1 - 100e-6) < 1e-6


def test_jitter_has_the_asked_width() -> None:
    imu = of(run(30.0, jitter="1ms"), "imu")
    errors = [frame.timestamp_ns - START_NS - frame.number * 5_000_000 for frame in imu[10:]]
    assert 0.9e6 < np.std(errors) < 1.05e6


def test_contents_are_what_the_streams_say() -> None:
    frames = run(0.5)
    assert Image.open(io.BytesIO(of(frames, "camera/0")[3].payload)).size == (640, 480)
    for frame in frames:
        dtype = frame.stream.dtype
        assert dtype is None or len(frame.payload) % dtype.itemsize == 0
    gyro = [np.frombuffer(frame.payload, IMU_SAMPLE)["gyro"][0, 2] for frame in of(frames, "imu")]
    assert gyro[0] == pytest.approx(1.0) and gyro[-1] < 0.1  # cos(2 pi 0.5 Hz t), half a second on


def test_a_run_is_recorded_whole(tmp_path: Path) -> None:
    rig = make_rig(cameras=1, codec="zstd")
    with Recorder(tmp_path / "a.hfr") as recorder:
        play(recorder, rig, 1.0, speed=0)
    file = OpenedRecording(tmp_path / "a.hfr")
    frames = run(1.0, cameras=1)
    for name in ("camera/0", "lidar/top", "radar/front", "event/front"):
        assert file.frames(name) == sorted((frame.timestamp_ns, frame.payload) for frame in of(frames, name))
    assert sum(len(data) for _, data in file.frames("imu")) == 200 * (8 + IMU_SAMPLE.itemsize)


def test_the_command_prints_the_same_facts_as_json(tmp_path: Path) -> None:
    out = tmp_path / "drive"
    call = ["record", str(out), "--simulate", "--seconds", "1", "--speed", "0", "--split-duration", "300ms", "--json"]
    result = CliRunner().invoke(app, [*call, "--drop", "0.2"])
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    imu = facts["streams"]["imu"]
    assert 198 <= imu["frames"] + imu["lost"] <= 200 and imu["lost"] > 20 and len(facts["parts"]) >= 3
    assert sum(part["frames"] for part in facts["parts"]) == sum(
        len(OpenedRecording(path).index) for path in out.iterdir()
    )


def test_the_command_without_a_source_says_what_to_do(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["record", str(tmp_path / "a.hfr")])
    assert isinstance(result.exception, UsageError) and "trainload.Recorder" in str(result.exception)


def test_speed_one_is_real_time(tmp_path: Path) -> None:
    ticks: list[int] = []
    with Recorder(tmp_path / "a.hfr") as recorder:
        play(recorder, make_rig(cameras=0), 0.4, tick=lambda: ticks.append(recorder.stats().streams[0].frames))
        assert recorder.stats().seconds >= 0.35
    assert len(ticks) >= 2 and ticks == sorted(ticks)
