"""Reads of the mix of the MCAP project's own benchmark: one random lidar frame, a 100 ms window, everything.

usage: hyperframe_read.py [--seconds 30] [--rounds 5] [--reads 100] [--out bench-out]   writes hyperframe_read.json

All sides read the same messages from files of their own in the page cache (bare and the variants of trainload from that
of trainload), each in a process of its own, turn about, each round in another order; a number is the median over all
rounds, a ratio the median of the rounds' own ratios.
"Its CPU" is the processor time of reading everything, which a busy machine disturbs less. Checksums: "trainload"
compares the CRC-32 of every payload, mcap by its default does not.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hyperframe_peers import SIDES, Side, Trainload
from hyperframe_write import CODECS, Frame, make_frames
from machine import machine
from side_process import SideProcess
from trainload.recordings.reading.hyperframe import HyperframeReader

Work = tuple[list[int], list[tuple[int, int]]]

LIMITS = {"frame": 20, "window": 10, "everything": 3}  # x mcap
NEEDS = {"mcap": "mcap", "h5py": "h5py", "rosbags": "rosbags", "nvidia-ncore": "ncore"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reads", type=int, default=100, help="random frames and windows per round")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    kinds = [kind for kind in SIDES if importlib.util.find_spec(NEEDS.get(kind.name, "trainload"))]
    frames = make_frames(args.seconds)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for codec in CODECS:
            sides = [kind for kind in kinds if codec in kind.codecs]
            rows += measure(sides, Path(folder), frames, codec, args.rounds, args.reads)
    missing = [kind.name for kind in SIDES if kind not in kinds]
    report = {
        "machine": machine(),
        "payload_bytes": sum(len(f.data) for f in frames),
        "not_installed": missing,
        "limits": LIMITS,
        "rows": rows,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "hyperframe_read.json").write_text(json.dumps(report, indent=1) + "\n")
    print(to_text(rows))


def measure(
    kinds: list[type[Side]], folder: Path, frames: list[Frame], codec: str, rounds: int, reads: int
) -> list[dict[str, Any]]:
    """One row per side: median seconds of each kind of read, and how many times as long as ours it takes."""
    for kind in kinds:
        if kind.file is None:
            kind(folder, codec).write(frames)
    with HyperframeReader(Trainload(folder, codec).path) as drive:
        spans = list(zip(drive.windows.starts.tolist(), drive.windows.ends.tolist()))[:-1]
    lidar = [frame.timestamp_ns for frame in frames if frame.stream == "lidar"]
    seconds: dict[str, dict[str, list[float]]] = {kind.name: {} for kind in kinds}
    with ExitStack() as stack:
        sides = {kind.name: stack.enter_context(SideProcess(_open, kind, folder, codec)) for kind in kinds}
        for turn in range(rounds + 1):  # the first one warms up
            choose = random.Random(turn)
            work = [choose.choice(lidar) for _ in range(reads)], [choose.choice(spans) for _ in range(reads)]
            for name in choose.sample(list(sides), len(sides)):
                found = sides[name].ask(work)
                for what, value in found.items() if turn else ():
                    seconds[name].setdefault(what, []).append(value)
    return [_row(name, codec, seconds[name], seconds["trainload"]) for name in seconds]


def _open(kind: type[Side], folder: Path, codec: str) -> Callable[[Work], dict[str, float]]:
    side = kind(folder, codec)
    side.open()
    return lambda work: _round(side, *work)


def _round(side: Side, times: list[int], spans: list[tuple[int, int]]) -> dict[str, float]:
    found = {"frame": statistics.median(_timed(lambda t=t: side.lidar_frame(t)) for t in times)}  # type: ignore[misc]
    if side.has_windows:
        found["window"] = statistics.median(_timed(lambda s=s: side.window(*s)) for s in spans)  # type: ignore[misc]
    cpu = time.process_time()
    found["everything"] = _timed(side.everything)
    found["everything_cpu"] = time.process_time() - cpu
    return found


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _row(side: str, codec: str, found: dict[str, list[float]], ours: dict[str, list[float]]) -> dict[str, Any]:
    ratios = {
        what: statistics.median(theirs / our for theirs, our in zip(values, ours[what]))
        for what, values in found.items()
    }
    return {
        "side": side,
        "codec": codec,
        **{f"{what}_s": statistics.median(values) for what, values in found.items()},
        **{f"{what}_times_ours": round(ratio, 3) for what, ratio in ratios.items()},
    }


def to_text(rows: list[dict[str, Any]]) -> str:
    """The rows as a table: microseconds and, in brackets, how many times as long as ours."""
    lines = [
        f"{'side':22} {'codec':6} {'lidar frame us':>18} {'window us':>20} {'everything ms':>18} {'its CPU ms':>16}"
    ]
    for row in rows:
        cells = []
        for what, scale in (("frame", 1e6), ("window", 1e6), ("everything", 1e3), ("everything_cpu", 1e3)):
            cells.append(
                f"{row[f'{what}_s'] * scale:.1f} ({row[f'{what}_times_ours']:.2f})" if f"{what}_s" in row else "-"
            )
        lines.append(f"{row['side']:22} {row['codec']:6} {cells[0]:>18} {cells[1]:>20} {cells[2]:>18} {cells[3]:>16}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
