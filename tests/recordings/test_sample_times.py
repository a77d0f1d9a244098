"""The timing of a packed stream is that of the samples inside its payloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from trainload.cli import info  # noqa: F401 (registers its verb)
from trainload.cli.app import app
from trainload.recordings.reading import facts as hyperframe_facts
from trainload.recordings.reading import sample_times
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.writing.writer import HyperframeWriter

IMU_SAMPLE = np.dtype([("rate", "<f4", (3,))])


def write_imu(path: Path, times: list[int], window: int = 100_000_000) -> HyperframeReader:
    """A recording with one packed stream of samples at these times, and a payload per window."""
    with HyperframeWriter(path, window=window) as writer:
        imu = writer.add_stream("imu", kind="imu", dtype=IMU_SAMPLE, packed=True, rate_hz=200)
        for time in times:
            writer.append(imu, time, bytes(IMU_SAMPLE.itemsize))
    return HyperframeReader(path)


def run_info(*arguments: str | Path) -> str:
    return CliRunner().invoke(app, ["info", *map(str, arguments)]).stdout


def test_facts_of_a_packed_stream_are_those_of_its_samples(tmp_path: Path) -> None:
    step = 5_000_000
    times = [n * step for n in range(400) if not 30 <= n < 37 and n != 81]  # 8 lost, a window is 21 samples
    [imu] = write_imu(tmp_path / "a.hfr", times).facts()["streams"]
    assert imu["frames"] == 20 and imu["samples"] == 392
    assert imu["rate_hz"] == pytest.approx(391e9 / (399 * step)) and imu["nominal_rate_hz"] == 200
    assert imu["longest_gap_ms"] == 40 and imu["longest_gap_at_ns"] == 29 * step
    assert sum(imu["lost_samples"].values()) == 8 and imu["lost_frames"] == 0


@settings(deadline=None, max_examples=25)
@given(
    times=st.lists(st.integers(0, 3_000), min_size=1, max_size=80, unique=True),
    window=st.integers(1, 400),
    stretch=st.integers(1, 40),
)
def test_sample_timing_agrees_with_all_times_at_once(
    times: list[int], window: int, stretch: int, tmp_path_factory: Any
) -> None:
    times.sort()
    reader = write_imu(tmp_path_factory.mktemp("imu") / "a.hfr", times, window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_times, "STRETCH", stretch)
        [found] = reader.facts()["streams"]
    intervals = np.diff(times)
    assert found["samples"] == len(times)
    if not len(intervals):
        assert found["rate_hz"] is None and found["lost_samples"] is None
        return
    off = np.abs(intervals - np.median(intervals))
    assert found["rate_hz"] == pytest.approx(len(intervals) * 1e9 / (times[-1] - times[0]))
    assert found["jitter_ms"] == pytest.approx(np.sqrt(np.mean(off**2)) / 1e6)
    assert found["jitter_p99_ms"] == pytest.approx(np.percentile(off, 99) / 1e6)
    assert found["longest_gap_ms"] == pytest.approx(intervals.max() / 1e6)
    assert found["longest_gap_at_ns"] == times[int(intervals.argmax())]


def test_lost_samples_are_told_apart_by_where_they_are_missing(tmp_path: Path) -> None:
    step, window = 5_000_000, 49_999_999  # ten samples per window
    times = [n * step for n in range(200) if n not in (34, 35, 50, 51, 52)]  # 34, 35 inside; 50 to 52 at a seam
    [imu] = write_imu(tmp_path / "a.hfr", times, window).facts()["streams"]
    assert imu["lost_samples"] == {"inside": 2, "between": 3}


def test_samples_of_irregular_times_are_not_called_lost(tmp_path: Path) -> None:
    times = np.cumsum(np.random.default_rng(0).exponential(5_000_000, 500)).astype(int).tolist()
    [events] = write_imu(tmp_path / "a.hfr", times).facts()["streams"]
    assert events["lost_samples"] is None and events["samples"] == 500


def test_samples_are_read_when_they_are_few_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = write_imu(tmp_path / "a.hfr", [n * 5_000_000 for n in range(200)])
    monkeypatch.setattr(hyperframe_facts, "FEW_PAYLOADS", 3)
    [imu] = reader.facts()["streams"]
    assert imu["samples"] is None and imu["rate_hz"] is None and imu["samples_per_frame"] == 20
    assert "samples not read: --samples" in run_info(tmp_path / "a.hfr")
    assert "200.00 Hz (nominal 200), jitter 0.000 ms" in run_info("--samples", tmp_path / "a.hfr")
    monkeypatch.undo()
    assert "200.00 Hz" in run_info(tmp_path / "a.hfr")
    assert "samples not read" in run_info("--no-samples", tmp_path / "a.hfr")


def test_a_damaged_packed_payload_is_told_beside_the_other_facts(tmp_path: Path) -> None:
    reader = write_imu(tmp_path / "a.hfr", [n * 5_000_000 for n in range(200)])
    data = bytearray((tmp_path / "a.hfr").read_bytes())
    data[int(reader.files[0].index[4]["byte_offset"])] ^= 1
    (tmp_path / "a.hfr").write_bytes(data)
    [imu] = HyperframeReader(tmp_path / "a.hfr").facts()["streams"]
    assert "CRC-32 of frame 4" in imu["error"] and imu["frames"] == 10 and imu["samples"] is None
    assert "CRC-32 of frame 4" in run_info(tmp_path / "a.hfr")
