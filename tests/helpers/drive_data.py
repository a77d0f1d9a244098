"""A small recording with everything in it, and what it must read back as. Used by the tests of the HFRM reader."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from trainload.recordings.writing.writer import HyperframeWriter

SECOND = 1_000_000_000
IMU = np.dtype([("acceleration", "<f4", (3,)), ("rate", "<f4", (3,))])


@dataclass
class Written:
    """Frames as they were given: (timestamp, payload) per stream, in time order."""

    path: Path
    frames: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (24, 32, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def write_drive(path: Path, *, seconds: float = 1.0, codec: str = "lz4", seed: int = 0) -> Written:
    """Lidar 10 Hz (compressed, shuffled), camera 30 Hz (JPEG), odometry 50 Hz (plain), IMU 200 Hz (packed)."""
    rng = np.random.default_rng(seed)
    written = Written(path, {name: [] for name in ("lidar/top", "camera", "odometry")})
    with HyperframeWriter(path, meta={"vehicle": "test"}, overwrite=True) as writer:
        lidar = writer.add_stream(
            "lidar/top",
            kind="lidar",
            dtype="<f4",
            shape=(-1, 4),
            codec=codec,
            shuffle=True,
            rate_hz=10,
            frame_duration="50ms",
        )
        camera = writer.add_stream("camera", kind="camera", encoding="jpeg", rate_hz=30, clock="host")
        odometry = writer.add_stream("odometry", dtype="<f8", shape=(3, -1))
        imu = writer.add_stream("imu", kind="imu", dtype=IMU, packed=True, rate_hz=200)
        rates = ((lidar, "lidar/top", 10, 11), (camera, "camera", 30, 13), (odometry, "odometry", 50, 7))
        due = sorted(
            (i * SECOND // rate + shift, stream, name, i)
            for stream, name, rate, shift in rates
            for i in range(int(rate * seconds))
        )
        due += [(i * SECOND // 200, imu, "imu", i) for i in range(int(200 * seconds))]
        for time, stream, name, i in sorted(due):
            if name == "lidar/top":
                payload = np.cumsum(rng.normal(0, 0.01, 4 * 300)).astype("<f4").tobytes()
            elif name == "camera":
                payload = picture(i)
            elif name == "odometry":
                payload = rng.bytes(24 * 2)
            else:
                payload = rng.bytes(IMU.itemsize)
            duration = 1000 + i if name == "camera" else 0
            receive = time + 500 if name != "odometry" else 0
            writer.append(stream, time, payload, receive_ns=receive, duration_ns=duration)
            if name in written.frames:
                written.frames[name].append((time, payload))
    return written


def equal(one: np.ndarray, two: np.ndarray) -> bool:
    """Type, shape and every bit."""
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
