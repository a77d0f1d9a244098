"""A training read of real sweeps and pictures, window by window in random order, from a warm and a cold page cache.

usage: recordings_training.py SENSORS [--seconds 40] [--rounds 5] [--folder DIR] [--out bench-out]

SENSORS: the folder with KITTI and EuRoC data (recordings_data.py says what of it). Prints tables in Markdown and
writes recordings_training.json. All sides read the same frames, each in a process of its own, turn about, each round in
another order; a number is the median of the rounds, a ratio the median of the rounds' own ratios. Cold: the file was
dropped from the page cache before each epoch; what the disk, or the host of a virtual one, keeps is beyond that.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import trainload as tl
from machine import machine
from recordings_data import Composite, drop_from_page_cache, write_hyperframes, write_mcap
from recordings_sides import SIDES
from side_process import SideProcess

CODECS = ("none", "lz4", "zstd")
CACHE_SHARE = 0.72  # of all frames as arrays: gives a hit rate of about 60 %
CLIP_STREAMS = ["lidar", "camera/colour"]
LOADER, PREAD, MCAP = "HyperframeLoader", "pread", "mcap in workers"
ONE_THREAD, FRAMES = "HyperframeLoader, one thread", "frame by frame, one thread"
STACKED, CHECKED = "HyperframeLoader, stacked", "pread + CRC-32, kept memory"
UNCHECKED = "HyperframeLoader, no checksums"
RATIOS = (  # key, what it says, of, to, wanted
    ("loader_to_mcap", "HyperframeLoader to mcap in workers", LOADER, MCAP, "5"),
    ("loader_to_pread", "HyperframeLoader to pread", LOADER, PREAD, "0.7"),
    ("unchecked_to_pread", "HyperframeLoader, no checksums, to pread", UNCHECKED, PREAD, ""),
    ("checked_to_pread", "pread + CRC-32 into kept memory to pread: what is possible", CHECKED, PREAD, ""),
    ("loader_to_checked", "HyperframeLoader to that", LOADER, CHECKED, ""),
    ("stacked_to_mcap", "HyperframeLoader, stacked, to mcap in workers", STACKED, MCAP, ""),
    ("stacked_to_pread", "HyperframeLoader, stacked, to pread", STACKED, PREAD, ""),
    ("windows_to_frames", "windows to frame by frame", ONE_THREAD, FRAMES, ""),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sensors", type=Path)
    parser.add_argument("--seconds", type=int, default=40, help="length of the drive, 39 MB each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the files go; a temporary folder by default")
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    composite = Composite(args.sensors)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        drive = Path(folder) / "drive.hfr"
        reads, compressed, caches = [], [], []
        for codec in CODECS:
            write_hyperframes(drive, composite.frames(args.seconds), codec)
            write_mcap(drive.with_suffix(".mcap"), composite.frames(args.seconds), codec)
            names = list(SIDES) if codec == "none" else [LOADER, MCAP]
            found = [measure(drive, names, args.rounds, cold=cold) for cold in (False, True)]
            if codec == "none":
                reads = found
            else:
                compressed.append({"codec": codec, "reads": found})
                caches.append({"codec": codec, **measure_cache(drive, args.rounds)})
    report = {
        "machine": machine(),
        "load_average": os.getloadavg(),
        "seconds": args.seconds,
        "rounds": args.rounds,
        "reads": reads,
        "compressed": compressed,
        "cache": caches,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "recordings_training.json").write_text(json.dumps(report, indent=1) + "\n")
    print(to_markdown(report))


def measure(drive: Path, names: list[str], rounds: int, *, cold: bool) -> dict[str, Any]:
    """MB/s of payload of the named sides, and the ratios that matter."""
    rates: dict[str, list[float]] = {name: [] for name in names}
    with ExitStack() as stack:
        sides = {name: stack.enter_context(SideProcess(_open, name, drive)) for name in names}
        for turn in range(rounds + 1):  # the first one warms up
            for name in random.Random(turn).sample(names, len(names)):
                if cold:
                    drop_from_page_cache(drive.with_suffix(".mcap") if name == MCAP else drive)
                rate = sides[name].ask(turn)
                if turn:
                    rates[name].append(rate)
    ratios = {key: _ratio(rates, of, to) for key, _, of, to, _ in RATIOS if of in rates and to in rates}
    return {
        "cold": cold,
        "mb_per_s": {name: round(statistics.median(found)) for name, found in rates.items()},
        "rounds_mb_per_s": {name: [round(rate) for rate in found] for name, found in rates.items()},
        **ratios,
    }


def _ratio(rates: dict[str, list[float]], of: str, to: str) -> float:
    return round(statistics.median(one / two for one, two in zip(rates[of], rates[to])), 2)


def _open(name: str, drive: Path) -> Callable[[int], float]:
    """What reads an epoch with a seed and tells its MB/s of payload."""
    epoch = SIDES[name](drive)

    def timed(seed: int) -> float:
        begin = time.perf_counter()
        total = epoch(seed)
        return total / (time.perf_counter() - begin) / 1e6

    return timed


def measure_cache(drive: Path, rounds: int) -> dict[str, Any]:
    """Clips of five sweeps and pictures that overlap by three: epochs with and without a cache, once it is full."""
    plain, cached = _clip_loader(drive, 0), _clip_loader(drive, int(CACHE_SHARE * _decoded_bytes(drive)))
    cache, seconds, hit_rates = cached.dataset.store.cache, {plain: list[float](), cached: list[float]()}, []
    for turn in range(rounds + 2):  # the first two fill memory and cache
        for loader in (plain, cached) if turn % 2 else (cached, plain):
            hits, misses, begin = cache.hits, cache.misses, time.perf_counter()
            for _ in loader:
                pass
            if turn > 1:
                seconds[loader].append(time.perf_counter() - begin)
            if turn > 1 and loader is cached:
                hit_rates.append((cache.hits - hits) / (cache.hits + cache.misses - hits - misses))
    ratios = [without / within for without, within in zip(seconds[plain], seconds[cached])]
    return {
        "hit_rate": round(statistics.median(hit_rates), 3),
        "times_faster": round(statistics.median(ratios), 2),
        "without_s": round(statistics.median(seconds[plain]), 2),
        "with_s": round(statistics.median(seconds[cached]), 2),
        "rounds_times_faster": [round(ratio, 2) for ratio in ratios],
        "cache_bytes": cache.limit_bytes,
    }


def _clip_loader(drive: Path, cache_bytes: int) -> tl.HyperframeLoader:
    clips = tl.SequenceDataset(
        drive, duration="500ms", step="100ms", stride="200ms", streams=CLIP_STREAMS, cache_bytes=cache_bytes
    )
    return tl.HyperframeLoader(clips, batch_size=4, vary="list")


def _decoded_bytes(drive: Path) -> int:
    """Bytes of all frames of the clips' streams as arrays."""
    with tl.open_recording(drive) as reader:
        return sum(frame.array().nbytes for name in CLIP_STREAMS for frame in reader.iter_range(name, 0, 1 << 62))


def to_markdown(report: dict[str, Any]) -> str:
    """The report as tables."""
    warm, cold = report["reads"]
    lines = ["| side | warm MB/s | cold MB/s |", "|---|---:|---:|"]
    lines += [f"| {name} | {warm['mb_per_s'][name]} | {cold['mb_per_s'][name]} |" for name in SIDES]
    lines += ["", "| ratio | wanted | warm | cold |", "|---|---|---:|---:|"]
    lines += [f"| {what} | {wanted} | {warm[key]} | {cold[key]} |" for key, what, _, _, wanted in RATIOS]
    lines += [
        "",
        "| compressed, MB/s of arrays | loader warm | mcap warm | ratio | loader cold | mcap cold | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in report["compressed"]:
        cells = [
            str(cell)
            for read in row["reads"]
            for cell in (read["mb_per_s"][LOADER], read["mb_per_s"][MCAP], read["loader_to_mcap"])
        ]
        lines.append(f"| {row['codec']} | {' | '.join(cells)} |")
    lines += [
        "",
        "| cache of frames | hit rate | epoch without | with | times faster (1.8 wanted) |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in report["cache"]:
        lines.append(
            f"| {row['codec']} | {row['hit_rate']:.0%} | {row['without_s']} s | {row['with_s']} s "
            f"| {row['times_faster']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
