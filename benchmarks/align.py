"""Alignment against its floor: 1 million reference times, 4 streams by nearest, and the four bare binary searches.

usage: align.py [--times 1000000] [--rounds 7]   writes bench-out/align.json

Both sides run in turn in every round, and the ratio of each round counts; the median over the rounds is reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import trainload as tl
from machine import machine

RATES = {"camera": 30.0, "radar": 13.0, "gps": 5.0, "imu": 20.0}
REFERENCE_HZ = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    drive = make_drive(args.times)
    reference = drive.timestamps("lidar")
    streams = [drive.timestamps(name) for name in RATES]
    using = {name: tl.Nearest(max="20ms") for name in RATES}
    rows = []
    for _ in range(args.rounds):
        bare = seconds(lambda: [np.searchsorted(stream, reference) for stream in streams])
        ours = seconds(lambda: tl.align(drive, to="lidar", using=using))
        rows.append({"bare_s": bare, "align_s": ours, "ratio": ours / bare})
    ratio = statistics.median(row["ratio"] for row in rows)
    sizes = {name: len(stream) for name, stream in zip(RATES, streams)}
    report = {"machine": machine(), "times": args.times, "streams": sizes, "median_ratio": ratio, "rounds": rows}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "align.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"align is {ratio:.2f} x four bare searches of {args.times:,} times (limit: 5)")


def make_drive(times: int) -> tl.ArrayStreams:
    """A reference of that many times at 10 Hz, and four streams over the same span with jitter."""
    rng = np.random.default_rng(0)
    drive = tl.ArrayStreams()
    start, span_s = 1_700_000_000_000_000_000, times / REFERENCE_HZ
    drive.add("lidar", start + np.arange(times) * round(1e9 / REFERENCE_HZ))
    for name, rate in RATES.items():
        ticks = np.arange(int(span_s * rate)) * round(1e9 / rate)
        drive.add(name, start + ticks + rng.integers(0, 2_000_000, len(ticks)))
    return drive


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
