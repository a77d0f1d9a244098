"""A composite drive of real sensor data for recordings_training.py: the same frames as HFRM and as MCAP.

KITTI's Velodyne sweeps (float32 x y z intensity) and colour pictures, EuRoC's grey pictures and IMU, repeated on one
clock with a little noise each time, so that no two frames are equal. No such rig exists: it is a composite.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from numpy.typing import NDArray
from PIL import Image

from trainload.recordings.writing.writer import HyperframeWriter

NS = 1_000_000_000
WINDOW_NS = NS // 10
IMU = np.dtype([("rate", "<f4", (3,)), ("acceleration", "<f4", (3,))])


@dataclass(frozen=True, slots=True)
class Stream:
    """One sensor. shape: of a frame's array, with one -1. packed: single samples, packed per window by HFRM."""

    name: str
    rate_hz: int
    dtype: Any
    shape: tuple[int, ...] | None
    packed: bool = False


LIDAR = Stream("lidar", 10, np.dtype("<f4"), (-1, 4))
COLOUR = Stream("camera/colour", 10, np.dtype("u1"), (-1, 1242, 3))
GREY = Stream("camera/grey", 20, np.dtype("u1"), (-1, 752))
STREAMS = (LIDAR, COLOUR, GREY, Stream("imu", 200, IMU, None, packed=True))


class Frame(NamedTuple):
    timestamp_ns: int
    stream: Stream
    data: bytes


class Composite:
    """The sources, loaded once: `frames(seconds)` makes the drive, the same for the same length."""

    def __init__(self, sensors: Path) -> None:
        kitti, euroc = sensors / "kitti", sensors / "euroc" / "mav0"
        self._sweeps = [np.fromfile(path, "<f4") for path in sorted((kitti / "velodyne_points" / "data").glob("*.bin"))]
        self._colour = [_pixels(path) for path in sorted((kitti / "image_02" / "data").glob("*.png"))]
        self._grey = [_pixels(path) for path in sorted((euroc / "cam0" / "data").glob("*.png"))]
        with open(euroc / "imu0" / "data.csv") as file:
            rows = [row[1:] for row in csv.reader(file) if not row[0].startswith("#")]
        self._imu = np.array(rows, np.float64).astype("<f4")

    def frames(self, seconds: int) -> Iterator[Frame]:
        """All frames in time order. About 39 MB per second."""
        noise = np.random.default_rng(0)
        due = sorted((i * NS // s.rate_hz, n, i) for n, s in enumerate(STREAMS) for i in range(s.rate_hz * seconds))
        for time, n, i in due:
            yield Frame(time, STREAMS[n], self._payload(STREAMS[n], i, noise))

    def _payload(self, stream: Stream, i: int, noise: np.random.Generator) -> bytes:
        if stream is LIDAR:  # a millimetre to and fro, the step of the sensor
            sweep = self._sweeps[i % len(self._sweeps)]
            return (sweep + noise.integers(-1, 2, len(sweep), np.int8) * np.float32(0.001)).astype("<f4").tobytes()
        if stream in (COLOUR, GREY):
            source = self._colour if stream is COLOUR else self._grey
            pixels = source[i % len(source)]
            return (pixels ^ (noise.bytes(1)[0] & 1)).tobytes()
        return self._imu[i % len(self._imu)].tobytes()


def _pixels(path: Path) -> NDArray[np.uint8]:
    """A picture as pixels; KITTI's are cut to one width."""
    pixels = np.asarray(Image.open(path))
    return pixels[:, :1242] if pixels.ndim == 3 else pixels


def write_hyperframes(path: Path, frames: Iterator[Frame], codec: str, *, packed: bool = True) -> None:
    """HFRM in windows of 100 ms; sweeps and pictures with `codec`, floats shuffled by byte."""
    with HyperframeWriter(path, window=WINDOW_NS - 1, overwrite=True) as writer:
        for s in STREAMS:
            writer.add_stream(
                s.name,
                rate_hz=s.rate_hz,
                dtype=s.dtype,
                packed=s.packed and packed,
                **({} if s.shape is None else {"shape": s.shape}),  # type: ignore[arg-type]
                codec="none" if s.packed else codec,
                shuffle=s is LIDAR and codec != "none",
            )
        for frame in frames:
            writer.append(frame.stream.name, frame.timestamp_ns, frame.data)


def write_mcap(path: Path, frames: Iterator[Frame], codec: str) -> None:
    """MCAP by its own writer: chunks of its default size, one message per frame and IMU sample."""
    with open(path, "wb") as file:
        writer = McapWriter(file, compression=CompressionType[codec.upper()])
        writer.start()
        channels = {
            s.name: writer.register_channel(s.name, "raw", writer.register_schema(s.name, "raw", b"")) for s in STREAMS
        }
        for frame in frames:
            writer.add_message(channels[frame.stream.name], frame.timestamp_ns, frame.data, frame.timestamp_ns)
        writer.finish()
        file.flush()
        os.fsync(file.fileno())


def drop_from_page_cache(path: Path) -> None:
    """Make the next read of a file cold, as far as this machine's own page cache goes."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
