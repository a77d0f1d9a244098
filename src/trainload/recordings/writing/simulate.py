"""A simulated rig: cameras, lidar, IMU, radar, event camera, with jitter, losses and clocks that drift.

Every frame is a function of (seed, stream, frame number), so a run can be repeated and its truth is known.
"""

from __future__ import annotations

import heapq
import io
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from trainload.formats.durations import duration_ns as parse_duration
from trainload.recordings.writing.recorder import Recorder

START_NS = 1_700_000_000 * 10**9
POINT = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4")])
IMU_SAMPLE = np.dtype([("gyro", "<f4", (3,)), ("accel", "<f4", (3,))])
RADAR_TARGET = np.dtype([("range", "<f4"), ("azimuth", "<f4"), ("speed", "<f4"), ("rcs", "<f4")])
EVENT = np.dtype([("t", "<u4"), ("x", "<u2"), ("y", "<u2"), ("polarity", "u1")])
_VARIANTS = 8  # different contents per stream; making each frame anew would measure the maker
_TURN_HZ = 0.5  # the rig turns to and fro: a known motion, which camera and lidar see and the IMU feels
_TURN_RADIANS = 1 / (2 * math.pi * _TURN_HZ)  # so that the rate of turn reaches 1 rad/s


@dataclass(frozen=True, slots=True)
class SimulatedStream:
    """One sensor. jitter_ns: standard deviation of its timestamps. drop: share of frames lost in the sensor.

    drift_ppm: how fast its clock runs away. latency_ns: from acquisition to the recorder.
    """

    name: str
    kind: str
    rate_hz: float
    encoding: str = "raw"
    dtype: np.dtype[Any] | None = None
    packed: bool = False
    clock: str = "hardware"
    frame_duration: str | None = None
    codec: str = "none"
    jitter_ns: int = 0
    drop: float = 0.0
    drift_ppm: float = 0.0
    latency_ns: int = 0


class SimulatedFrame(NamedTuple):
    """A frame that reaches the recorder `arrival_ns` after the start."""

    arrival_ns: int
    stream: SimulatedStream
    number: int
    timestamp_ns: int
    payload: bytes


def make_rig(
    *,
    cameras: int = 3,
    camera_hz: float = 30.0,
    lidar_hz: float = 10.0,
    imu_hz: float = 200.0,
    radar_hz: float = 13.0,
    event_hz: float = 100.0,
    jitter: str = "500us",
    drop: float = 0.0,
    drift_ppm: float = 0.0,
    codec: str = "none",
) -> list[SimulatedStream]:
    """A car's sensors; a rate of 0 leaves one out. The first camera has the good clock, the others drift from it."""
    jitter_ns = parse_duration(jitter, what="jitter", least=0)
    streams = [
        SimulatedStream(f"camera/{n}", "camera", camera_hz, "jpeg", frame_duration="8ms", latency_ns=25_000_000)
        for n in range(cameras)
    ]
    streams += [
        SimulatedStream(
            "lidar/top", "lidar", lidar_hz, dtype=POINT, frame_duration="100ms", codec=codec, latency_ns=10_000_000
        ),
        SimulatedStream("imu", "imu", imu_hz, dtype=IMU_SAMPLE, packed=True, codec=codec, latency_ns=1_000_000),
        SimulatedStream("radar/front", "radar", radar_hz, dtype=RADAR_TARGET, clock="host", latency_ns=30_000_000),
        SimulatedStream("event/front", "event", event_hz, dtype=EVENT, codec=codec, latency_ns=2_000_000),
    ]
    running = [stream for stream in streams if stream.rate_hz > 0]
    return [
        replace(stream, jitter_ns=jitter_ns, drop=drop, drift_ppm=drift_ppm * n / max(1, len(running) - 1))
        for n, stream in enumerate(running)
    ]


def simulate(rig: list[SimulatedStream], seconds: float, *, seed: int = 0) -> Iterator[SimulatedFrame]:
    """All frames of a run of `seconds`, in the order in which they reach the recorder."""
    runs = [_run(stream, seconds, seed, n) for n, stream in enumerate(rig)]
    yield from heapq.merge(*runs, key=lambda frame: frame.arrival_ns)


def play(
    recorder: Recorder,
    rig: list[SimulatedStream],
    seconds: float,
    *,
    seed: int = 0,
    speed: float = 1.0,
    tick: Callable[[], None] | None = None,
) -> None:
    """Feed a run to a recorder at `speed` times real time (0: as fast as it goes); tick() about ten times a second."""
    ids = {
        stream.name: recorder.add_stream(
            stream.name,
            kind=stream.kind,
            encoding=stream.encoding,
            dtype=stream.dtype,
            rate_hz=stream.rate_hz,
            clock=stream.clock,
            frame_duration=stream.frame_duration,
            codec=stream.codec,
            shuffle=stream.codec != "none" and stream.dtype is not None,
            packed=stream.packed,
            calibration={"frame": stream.name},
        )
        for stream in rig
    }
    begin, next_tick = time.monotonic(), 0.0
    for frame in simulate(rig, seconds, seed=seed):
        due = frame.arrival_ns / 1e9 / speed if speed > 0 else 0.0
        while (wait := begin + due - time.monotonic()) > 0:
            time.sleep(min(wait, 0.05))
            next_tick = _tick(tick, next_tick)
        recorder.write(
            ids[frame.stream.name],
            frame.timestamp_ns,
            frame.payload,
            stream_index=frame.number,
            receive_ns=START_NS + frame.arrival_ns,
        )
        next_tick = _tick(tick, next_tick)


def _tick(tick: Callable[[], None] | None, next_tick: float) -> float:
    now = time.monotonic()
    if tick is None or now < next_tick:
        return next_tick
    tick()
    return now + 0.1


def _run(stream: SimulatedStream, seconds: float, seed: int, number: int) -> Iterator[SimulatedFrame]:
    rng = np.random.Generator(np.random.Philox(key=(seed, number)))
    make = _maker(stream, rng)
    count = int(seconds * stream.rate_hz)
    jitter = rng.normal(0.0, 1.0, count).clip(-3, 3) * stream.jitter_ns
    kept = rng.random(count) >= stream.drop
    arrived = 0
    for n in np.flatnonzero(kept).tolist():
        true_ns = round(n * 1e9 / stream.rate_hz)
        clock_ns = true_ns + round(true_ns * stream.drift_ppm * 1e-6) + round(jitter[n])
        arrived = max(arrived, true_ns + stream.latency_ns)
        yield SimulatedFrame(arrived, stream, n, START_NS + max(0, clock_ns), make(n, true_ns / 1e9))


def _maker(stream: SimulatedStream, rng: np.random.Generator) -> Callable[[int, float], bytes]:
    """What makes the content of frame `n` at true time `t` seconds."""
    if stream.kind == "imu":
        return _imu_sample
    ready = [_CONTENT[stream.kind](rng, n) for n in range(_VARIANTS)]
    return lambda _, t: ready[round((turn(t) / _TURN_RADIANS + 1) / 2 * (_VARIANTS - 1))]


def turn(t: float) -> float:
    """Where the rig is turned to at true time `t` seconds, in radians about z."""
    return _TURN_RADIANS * math.sin(2 * math.pi * _TURN_HZ * t)


def _imu_sample(_: int, t: float) -> bytes:
    """Turning to and fro about z: rate of turn, and gravity beside the pull of the turn."""
    phase = 2 * math.pi * _TURN_HZ * t
    sample = np.zeros((), IMU_SAMPLE)
    sample["gyro"] = (0.0, 0.0, math.cos(phase))
    sample["accel"] = (0.1 * math.sin(phase), 0.0, 9.81)
    return sample.tobytes()


def _picture(rng: np.random.Generator, n: int) -> bytes:
    """A JPEG of 640 x 480 with a bar that moves from variant to variant: left to right as the rig turns."""
    down, right = np.mgrid[0:480, 0:640]
    pixels = np.stack((right // 3 % 256, down // 2 % 256, np.full_like(right, 90)), axis=-1).astype(np.uint8)
    pixels[:, 80 * n : 80 * n + 40] = 255 - pixels[:, 80 * n : 80 * n + 40]
    pixels ^= rng.integers(0, 8, pixels.shape, np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def _sweep(rng: np.random.Generator, n: int) -> bytes:
    """14,400 points of a room seen from inside, turned as the rig is, 230,400 bytes."""
    angle = np.linspace(0, 2 * np.pi, 14_400, endpoint=False)
    seen = angle + _TURN_RADIANS * (2 * n / (_VARIANTS - 1) - 1)
    wall = 8 / np.maximum(np.abs(np.cos(seen)), np.abs(np.sin(seen))) + rng.normal(0, 0.01, angle.size)
    points = np.zeros(angle.size, POINT)
    points["x"], points["y"] = wall * np.cos(angle), wall * np.sin(angle)
    points["z"] = np.tile(np.linspace(-1.5, 1.5, 16), angle.size // 16)
    points["intensity"] = rng.integers(0, 256, angle.size)
    return points.tobytes()


def _targets(rng: np.random.Generator, n: int) -> bytes:
    targets = np.zeros(20 + n, RADAR_TARGET)
    for name, low, high in (("range", 1, 150), ("azimuth", -1, 1), ("speed", -20, 20), ("rcs", -10, 30)):
        targets[name] = rng.uniform(low, high, targets.size)
    return targets.tobytes()


def _events(rng: np.random.Generator, n: int) -> bytes:
    events = np.zeros(2000 + 100 * n, EVENT)
    events["t"] = np.sort(rng.integers(0, 10_000, events.size))
    events["x"], events["y"] = rng.integers(0, 640, events.size), rng.integers(0, 480, events.size)
    events["polarity"] = rng.integers(0, 2, events.size)
    return events.tobytes()


_CONTENT: dict[str, Callable[[np.random.Generator, int], bytes]] = {
    "camera": _picture,
    "lidar": _sweep,
    "radar": _targets,
    "event": _events,
}
