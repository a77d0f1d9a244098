"""The published table of a recorder again, on real sweeps and IMU; opening, order of reading, cost of the import.

usage: hyperframe_tables.py --sweeps FOLDER [--imu CSV] [--seconds 10] [--rounds 5] [--out bench-out]
writes hyperframe_tables.json

FOLDER holds Velodyne sweeps (*.bin, float32 x y z intensity, found in all subfolders), used again and again at 10 Hz;
CSV is an EuRoC imu0/data.csv at 200 Hz, used likewise: a composite, no recording. Write: with the product's syncs.
Read: every window, unpacked, checksums compared, from the page cache. Cold: the page cache is told to forget the file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hyperframe_write import make_frames, write_hyperframes
from machine import machine
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.writing.writer import HyperframeWriter

NS = 1_000_000_000
IMU = np.dtype([("rate", "<f8", (3,)), ("acceleration", "<f8", (3,))])
CODECS = [("none", False), ("lz4hc", False), ("lz4hc", True), ("zstd:3", False), ("zstd:3", True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=Path, required=True)
    parser.add_argument("--imu", type=Path)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.out.parent if args.out.parent.is_dir() else None) as folder:
        place = Path(folder)
        report = {
            "machine": machine(),
            "table": codec_table(place, args.sweeps, args.imu, args.seconds, args.rounds),
            "opening": opening(place, args.rounds),
            "cold": cold(place, args.rounds),
            "import": imports(args.rounds),
        }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "hyperframe_tables.json").write_text(json.dumps(report, indent=1) + "\n")
    print(to_text(report))


def codec_table(folder: Path, sweeps: Path, imu: Path | None, seconds: int, rounds: int) -> list[dict[str, Any]]:
    """One row per codec: write MB/s, stored size in percent of the payload, read MB/s."""
    clouds = [path.read_bytes() for path in sorted(sweeps.rglob("*.bin"))]
    samples = _imu_samples(imu)
    path = folder / "table.hfr"
    rows = []
    for codec, shuffle in CODECS:
        begin = time.perf_counter()
        with HyperframeWriter(path, overwrite=True) as writer:
            lidar = writer.add_stream("lidar", dtype="<f4", shape=(-1, 4), codec=codec, shuffle=shuffle, rate_hz=10)
            inertial = writer.add_stream("imu", dtype=IMU, packed=True, codec=codec, shuffle=shuffle, rate_hz=200)
            for tick in range(seconds * 200):
                writer.append(inertial, tick * NS // 200, samples[tick % len(samples)].tobytes())
                if tick % 20 == 0:
                    writer.append(lidar, tick * NS // 200, clouds[tick // 20 % len(clouds)])
        write_s = time.perf_counter() - begin
        reader = HyperframeReader(path)
        payload = sum(len(frame.data) for frame in reader.frames())
        reads = [_timed(lambda r=reader: sum(len(f.data) for f in r.frames())) for _ in range(rounds)]  # type: ignore[misc]
        rows.append(
            {
                "codec": codec,
                "shuffle": shuffle,
                "payload_bytes": payload,
                "write_mb_s": payload / write_s / 1e6,
                "size_percent": 100 * path.stat().st_size / payload,
                "read_mb_s": payload / statistics.median(reads) / 1e6,
            }
        )
    return rows


def _imu_samples(path: Path | None) -> np.ndarray[Any, np.dtype[np.void]]:
    samples = np.zeros(2000, IMU)
    values = np.cumsum(np.random.default_rng(0).normal(0, 0.01, (2000, 6)), axis=0)
    if path is not None:
        values = np.loadtxt(path, delimiter=",")[:, 1:7]
        samples = np.zeros(len(values), IMU)
    samples["rate"], samples["acceleration"] = values[:, :3], values[:, 3:]
    return samples


def opening(folder: Path, rounds: int) -> dict[str, Any]:
    """Opening a file of a million frames against one pread of its index, in turn."""
    path = folder / "million.hfr"
    with HyperframeWriter(path) as writer:
        streams = [writer.add_stream(name) for name in "abcde"]
        for i in range(1_000_000):
            writer.append(streams[i % 5], i * 1_000_000, b"a frame of a few bytes")
    with HyperframeReader(path) as reader:
        offset, size = reader.header.index_offset, reader.header.index_size
    fd = os.open(path, os.O_RDONLY)
    bare, ours = [], []
    for _ in range(4 * rounds):
        bare.append(_timed(lambda: os.pread(fd, size, offset)))
        ours.append(_timed(lambda: HyperframeReader(path).close()))
    os.close(fd)
    path.unlink()
    return {
        "frames": 1_000_000,
        "index_bytes": size,
        "bare_read_ms": statistics.median(bare) * 1e3,
        "open_ms": statistics.median(ours) * 1e3,
        "ratio": statistics.median(our / b for our, b in zip(ours, bare)),
        "ratio_of_best": min(ours) / min(bare),
        "limit": 3,
    }


def cold(folder: Path, rounds: int) -> dict[str, Any]:
    """MB/s from the disk: windows in order against single frames in random order, the cache emptied before each."""
    path = folder / "mix.hfr"
    write_hyperframes(path, make_frames(10), "none", True)
    by_window, by_frame, by_random_window = [], [], []
    for turn in range(rounds):
        with HyperframeReader(path) as reader:
            places = [(name, i) for name in reader.streams for i in range(reader.count(name))]
            random.Random(turn).shuffle(places)
            order = random.Random(turn).sample(range(len(reader)), len(reader))
            by_frame.append(
                _cold_rate(path, lambda r=reader, p=places: sum(len(r.read_at_index(*at).data) for at in p))  # type: ignore[misc]
            )
            by_window.append(_cold_rate(path, lambda r=reader: sum(len(frame.data) for frame in r.frames())))  # type: ignore[misc]
            by_random_window.append(
                _cold_rate(path, lambda r=reader, o=order: sum(len(f.data) for k in o for f in r.window(k).frames()))  # type: ignore[misc]
            )
    return {
        "frames_random_mb_s": statistics.median(by_frame),
        "windows_in_order_mb_s": statistics.median(by_window),
        "windows_random_mb_s": statistics.median(by_random_window),
        "windows_over_frames": statistics.median(w / f for w, f in zip(by_window, by_frame)),
        "random_windows_over_frames": statistics.median(w / f for w, f in zip(by_random_window, by_frame)),
    }


def _cold_rate(path: Path, read: Callable[[], int]) -> float:
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    begin = time.perf_counter()
    count = read()
    return count / (time.perf_counter() - begin) / 1e6


def imports(rounds: int) -> dict[str, float]:
    """Seconds of a new process that imports numpy, or trainload, in turn; `ratio` of the imports without the start."""
    found: dict[str, list[float]] = {"pass": [], "import numpy": [], "import trainload": []}
    for _ in range(2 * rounds):
        for code, values in found.items():
            values.append(_timed(lambda c=code: subprocess.run([sys.executable, "-c", c], check=True)))  # type: ignore[misc]
    start, numpy, ours = (statistics.median(values) for values in found.values())
    return {
        "python_s": start,
        "numpy_s": numpy,
        "trainload_s": ours,
        "ratio": (ours - start) / (numpy - start),
        "limit": 2,
    }


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def to_text(report: dict[str, Any]) -> str:
    """The report as a few lines."""
    lines = [f"{'codec':8} {'shuffle':8} {'write MB/s':>10} {'size %':>8} {'read MB/s':>10}"]
    for row in report["table"]:
        lines.append(
            f"{row['codec']:8} {row['shuffle']!s:8} {row['write_mb_s']:10.0f} {row['size_percent']:8.1f} "
            f"{row['read_mb_s']:10.0f}"
        )
    opened, disk, cost = report["opening"], report["cold"], report["import"]
    lines.append(
        f"a million frames open in {opened['open_ms']:.1f} ms, {opened['ratio']:.2f} x the bare read, "
        f"{opened['ratio_of_best']:.2f} x best against best (limit 3)"
    )
    lines.append(
        f"cold: windows in order {disk['windows_in_order_mb_s']:.0f} MB/s, windows at random "
        f"{disk['windows_random_mb_s']:.0f}, frames at random {disk['frames_random_mb_s']:.0f}"
    )
    lines.append(f"import trainload costs {cost['ratio']:.2f} x import numpy (limit 2)")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
