"""Writes the mix of the MCAP project's own benchmark with HyperframeWriter and with mcap (Python), turn about.

usage: python benchmarks/hyperframe_write.py [--seconds 30] [--rounds 5] [--folder DIR]

Prints JSON: for each codec, and with and without one fsync at the end, MB/s and size of both, and the median of the
paired ratios (cpu_ratio: of processor time, which other programs on the machine disturb less).
Both writers get the same frames in the same order; camera frames do not compress.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter

from machine import machine
from trainload.recordings.writing.part import keep_tmp
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.storage.atomic import AtomicFile

NS = 1_000_000_000


class Frame(NamedTuple):
    timestamp_ns: int
    stream: str
    data: bytes


class Stream(NamedTuple):
    name: str
    rate_hz: int
    offset_ns: int
    size: int
    packed: bool


STREAMS = (
    Stream("imu", 200, 0, 96, True),
    Stream("odom", 50, 7, 296, True),
    Stream("tf", 100, 3, 800, True),
    Stream("lidar", 10, 11, 230_400, False),
    Stream("camera", 15, 13, 524_288, False),
)
CODECS = {"none": CompressionType.NONE, "lz4": CompressionType.LZ4, "zstd": CompressionType.ZSTD}


def make_frames(seconds: int) -> list[Frame]:
    """The mix: smooth floats like those of sensors, and camera frames of random bytes, as JPEG looks to a codec."""
    rng = np.random.default_rng(0)

    def smooth(size: int) -> bytes:
        return np.cumsum(rng.normal(0, 0.01, size // 4)).astype("f4").round(3).tobytes()

    cameras, sweeps = [rng.bytes(524_288) for _ in range(4)], [smooth(230_400) for _ in range(8)]
    content: dict[str, Callable[[int], bytes]] = {"lidar": lambda i: sweeps[i % 8], "camera": lambda i: cameras[i % 4]}
    frames = [
        Frame(i * NS // s.rate_hz + s.offset_ns, s.name, content[s.name](i) if s.name in content else smooth(s.size))
        for s in STREAMS
        for i in range(s.rate_hz * seconds)
    ]
    return sorted(frames, key=lambda frame: frame.timestamp_ns)


class _Unsynced(AtomicFile):
    """A file that leaves the moment of writing to the system, as mcap's does."""

    def sync(self) -> None:
        return


def _unsynced(path: Path) -> AtomicFile:
    return _Unsynced(path, keep=True)


def write_hyperframes(path: Path, frames: list[Frame], codec: str, sync: bool) -> None:
    """Our side. sync=True writes as the product does: data, header, folder synced."""
    with HyperframeWriter(path, overwrite=True, open_file=keep_tmp if sync else _unsynced) as writer:
        ids = {
            s.name: writer.add_stream(
                s.name,
                rate_hz=s.rate_hz,
                dtype=[("value", "<f4", (s.size // 4,))] if s.packed else "<f4",
                packed=s.packed,
                encoding="jpeg" if s.name == "camera" else "raw",
                codec="none" if s.name == "camera" else codec,
            )
            for s in STREAMS
        }
        for at, name, data in frames:
            writer.append(ids[name], at, data)


def write_mcap(path: Path, frames: list[Frame], codec: str, sync: bool) -> None:
    """The other side, as its documentation shows it."""
    with open(path, "wb") as file:
        writer = McapWriter(file, compression=CODECS[codec])
        writer.start()
        channel = {
            s.name: writer.register_channel(s.name, "raw", writer.register_schema(s.name, "raw", b"")) for s in STREAMS
        }
        for at, name, data in frames:
            writer.add_message(channel[name], at, data, at)
        writer.finish()
        file.flush()
        if sync:
            os.fsync(file.fileno())


SIDES: dict[str, Callable[[Path, list[Frame], str, bool], None]] = {"trainload": write_hyperframes, "mcap": write_mcap}


def measure(folder: Path, frames: list[Frame], codec: str, sync: bool, rounds: int) -> dict[str, object]:
    """Both sides turn about, `rounds` times after one unmeasured round; who goes first alternates."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    cpu_seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    sizes: dict[str, int] = {}
    for turn in range(rounds + 1):
        for side in sorted(SIDES, reverse=bool(turn % 2)):
            path = folder / f"{side}.out"
            path.unlink(missing_ok=True)
            os.sync()
            begin, cpu_begin = time.perf_counter(), time.process_time()
            SIDES[side](path, frames, codec, sync)
            if turn:
                seconds[side].append(time.perf_counter() - begin)
                cpu_seconds[side].append(time.process_time() - cpu_begin)
            sizes[side] = path.stat().st_size
    total = sum(len(frame.data) for frame in frames)
    ratios = [other / ours for ours, other in zip(seconds["trainload"], seconds["mcap"])]
    return {
        "codec": codec,
        "fsync_at_end": sync,
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "cpu_ratio": round(statistics.median(cpu_seconds["mcap"]) / statistics.median(cpu_seconds["trainload"]), 2),
        **{f"{side}_mb_per_s": round(total / statistics.median(seconds[side]) / 1e6) for side in SIDES},
        **{f"{side}_size": round(sizes[side] / total, 4) for side in SIDES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="length of the recording")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None, help="where the files go; a temporary folder by default")
    options = parser.parse_args()
    frames = make_frames(options.seconds)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        rows = [
            measure(Path(folder), frames, codec, sync, options.rounds) for codec in CODECS for sync in (True, False)
        ]
    payload_mb = round(sum(len(frame.data) for frame in frames) / 1e6)
    facts = {**machine(), "payload_mb": payload_mb, "frames": len(frames), "rows": rows}
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
