"""Packing at level 3 against a bare Pillow loop that resizes and saves the same pictures, both on `--jobs` processes.

usage: pack_images.py CLASS_FOLDER [--jobs 2] [--rounds 7]   writes bench-out/pack_images.json

The bare loop opens, resizes by level 3's rule and saves each picture as a file, and does nothing else: no restart
markers, no checksums, no sizes to arrange. Each run is a fresh process; the clock runs from the first picture's name to
the last byte, with the start of the worker processes. Runs alternate, and the ratio of each pair counts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import machine

SHORT, LONG, BOUNDARY, QUALITY = 400, 600, 440, 80
CONTENDERS = ("bare", "trainload")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps({"bare": bare, "trainload": trainload}[args.contender](args.source, args.jobs)))
        return
    rows = []
    for _ in range(args.rounds):
        row = {name: run(name, args.source, args.jobs) for name in CONTENDERS}
        rows.append(row | {"ratio": row["trainload"] / row["bare"]})
        print("  ".join(f"{name} {value:,.2f}" for name, value in rows[-1].items()), flush=True)
    ratio = statistics.median(row["ratio"] for row in rows)
    report = {
        "machine": machine(),
        "command": sys.argv,
        "jobs": args.jobs,
        "unit": "pictures/s",
        "median_ratio": ratio,
        "rounds": rows,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "pack_images.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"packing runs at {ratio:.3f} of a bare Pillow loop (at least 0.9 is asked for)")


def run(contender: str, source: Path, jobs: int) -> float:
    """Pictures per second of one contender in a process of its own."""
    command = [sys.executable, __file__, str(source), "--jobs", str(jobs), "--contender", contender]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def trainload(source: Path, jobs: int) -> float:
    from trainload.images.packing.images import pack_images

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        summary = pack_images(source, Path(folder) / "set.dts", level=3, jobs=jobs)
        return summary.pictures / (time.perf_counter() - start)


def bare(source: Path, jobs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        files = sorted(source.glob("*/*"))
        processes = [
            multiprocessing.Process(target=resize_and_save, args=(files[n::jobs], folder)) for n in range(jobs)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        return len(files) / (time.perf_counter() - start)


def resize_and_save(files: list[Path], folder: str) -> None:
    from PIL import Image

    for n, file in enumerate(files):
        image: Image.Image = Image.open(file)
        width, height = image.size
        short = min(width, height)
        if short > BOUNDARY:
            scale = float(SHORT) / short
            image = image.resize((int(width * scale), int(height * scale)), Image.Resampling.LANCZOS)
        width, height = image.size
        most = (LONG, SHORT) if width > height else (SHORT, LONG)
        final = (min(width, most[0]), min(height, most[1]))
        if final != image.size:
            left, top = (width - final[0]) // 2, (height - final[1]) // 2
            image = image.crop((left, top, left + final[0], top + final[1]))
        image.save(f"{folder}/{file.parent.name}-{n}.jpg", "JPEG", quality=QUALITY)


if __name__ == "__main__":
    main()
