"""The report finds known offsets, drifts and tails, and shows the same facts in every form."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import trainload as tl

MS = 1_000_000
S = 1_000_000_000
SHAKE_HZ = 5.3


def published_rig(seconds: int = 20) -> tl.ArrayStreams:
    """Lidar 10 Hz, camera 30 Hz that runs free (its phase wanders), IMU 200 Hz on a mount that shakes at SHAKE_HZ."""
    rng = np.random.default_rng(3)
    streams = tl.ArrayStreams()
    streams.add("lidar", np.arange(seconds * 10) * 100 * MS + 2 * MS)
    camera = np.arange(seconds * 30) * S // 30
    camera = camera + np.cumsum(rng.normal(0, 0.6 * MS, len(camera))).astype(
        np.int64
    )  # free-running: the phase wanders
    streams.add("camera", camera, receive_times=camera + 30 * MS)
    imu = np.arange(seconds * 200) * 5 * MS
    streams.add("imu", imu, values=np.sin(2 * np.pi * SHAKE_HZ * imu / S))
    return streams


def test_the_published_example_holds():
    streams = published_rig()
    lidar = streams.timestamps("lidar")
    pairs = tl.align(streams, to="lidar", using={"camera": tl.Nearest(), "imu": tl.Interpolate()})
    camera = pairs.report().streams[0]
    assert 15.5 * MS < camera.max_ns < 18.5 * MS  # half of the 33.3 ms between pictures is 16.7 ms
    speed = 2 * np.pi * SHAKE_HZ  # largest change per second of the known motion
    error_s = np.abs(pairs.values("imu") - np.sin(speed * lidar / S)).max() / speed
    assert 0.05e-3 < error_s < 0.15e-3  # about 0.1 ms


def test_a_known_offset_and_drift_are_found():
    rng = np.random.default_rng(0)
    streams = tl.ArrayStreams()
    lidar = np.arange(6000) * 100 * MS
    streams.add("lidar", lidar)
    camera = (np.arange(18000) * S / 30 * (1 + 20e-6)).astype(np.int64) + 3 * MS
    streams.add("camera", camera + rng.normal(0, 0.2 * MS, len(camera)).astype(np.int64))
    [camera_report] = tl.align(streams, to="lidar").report().streams
    assert camera_report.offset_ns == pytest.approx(3 * MS, abs=0.05 * MS)
    assert camera_report.drift_ppm == pytest.approx(20, abs=0.5)
    assert camera_report.jitter_ns == pytest.approx(0.2 * MS, rel=0.1)


def test_a_drift_through_many_periods_is_found_all_the_same():
    streams = tl.ArrayStreams()
    streams.add("lidar", np.arange(6000) * 100 * MS)
    streams.add("camera", (np.arange(18000) * S / 30 * (1 - 200e-6)).astype(np.int64))
    [camera] = tl.align(streams, to="lidar").report().streams
    assert camera.unwrapped
    assert camera.drift_ppm == pytest.approx(-200, abs=1)


def test_residuals_without_a_trend_are_not_unwrapped_into_one():
    rng = np.random.default_rng(1)
    streams = tl.ArrayStreams()
    streams.add("events", np.sort(rng.integers(0, 600 * S, 5000)))
    streams.add("camera", np.arange(18000) * S // 30)
    [camera] = tl.align(streams, to="events").report().streams
    assert not camera.unwrapped
    assert abs(camera.drift_ppm) < 5


def test_rates_that_do_not_divide_evenly_are_no_drift():
    streams = tl.ArrayStreams()
    streams.add("pose", np.arange(1200) * 50 * MS)
    streams.add("imu", (np.arange(6300) * S / 104.3).astype(np.int64))
    [imu] = tl.align(streams, to="pose").report().streams
    assert not imu.unwrapped
    assert abs(imu.drift_ppm) < 20


def test_statistics_are_those_of_numpy_and_the_worst_come_first():
    streams = published_rig()
    pairs = tl.align(streams, to="lidar", using={"camera": tl.Nearest(max="10ms")})
    [camera] = pairs.report().streams
    residual = pairs.residuals["camera"][pairs.matches["camera"].matched]
    size = np.abs(residual)
    assert camera.unmatched == len(pairs) - len(size) > 0
    assert camera.mean_ns == size.mean()
    assert camera.p99_9_ns == pytest.approx(np.percentile(size, 99.9))
    assert camera.max_ns == size.max() <= 10 * MS
    assert sum(camera.counts) == len(size)
    assert [abs(worst.residual_ns) for worst in camera.worst] == np.sort(size)[::-1][:10].tolist()
    for worst in camera.worst:
        row = pairs.times.tolist().index(worst.time_ns)
        assert pairs.residuals["camera"][row] == worst.residual_ns


def test_receive_times_show_as_latency_only():
    [camera] = tl.align(published_rig(), to="lidar", using={"camera": tl.Nearest()}).report().streams
    assert camera.latency is not None
    assert camera.latency.p50_ns == camera.latency.max_ns == 30 * MS


def test_a_stream_that_never_matches_is_reported_without_numbers():
    streams = tl.ArrayStreams()
    streams.add("a", [0, 100])
    streams.add("b", [10 * S])
    report = tl.align(streams, to="a", using={"b": tl.Nearest(max="1us")}).report()
    [facts] = report.facts()["streams"]
    assert facts["unmatched"] == 2
    assert facts["max_ns"] is None
    assert "nothing matched" in str(report)
    assert report.over(1) == ["b: 2 of 2 are unmatched"]


def test_text_json_png_and_html_show_the_same_alignment(tmp_path):
    report = tl.align(published_rig(), to="lidar", using={"camera": tl.Nearest(), "imu": tl.Interpolate()}).report()
    text = str(report)
    for word in ("unmatched", "p99.9", "worst", "camera", "imu", "200 times"):
        assert word in text
    report.save_json(tmp_path / "r.json")
    facts = json.loads((tmp_path / "r.json").read_text())
    assert facts["streams"][0]["max_ns"] == report.streams[0].max_ns
    report.save_png(tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    report.save_html(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "data:image/png;base64," in page
    assert not re.search(r"(?:src|href)=.(?!data:)", page)
    assert "<script" not in page


def test_names_from_a_file_cannot_write_html(tmp_path):
    streams = tl.ArrayStreams()
    streams.add("a", [0])
    streams.add("<script>alert(1)</script>", [0])
    tl.align(streams, to="a").report().save_html(tmp_path / "r.html")
    assert "<script" not in (tmp_path / "r.html").read_text()


def test_the_gate_names_each_stream_over_the_limit():
    report = tl.align(published_rig(), to="lidar", using={"camera": tl.Nearest(), "imu": tl.Nearest()}).report()
    assert report.over(20 * MS) == []
    [complaint] = report.over(5 * MS)
    assert complaint.startswith("camera: max residual 1")
