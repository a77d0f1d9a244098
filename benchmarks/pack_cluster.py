"""Packing at level 3 by Ray tasks against `jobs` processes of one packer, on the same pictures and cores.

usage: pack_cluster.py CLASS_FOLDER [--jobs 2] [--volumes 8] [--rounds 5]   writes bench-out/pack_cluster.json

Ray is a local one of that many cores, one process per task. Its start (a few seconds, paid once and on a cluster not at
all) is measured apart; then each run packs the whole set into a new folder. Runs alternate in one process,
now one first, now the other, and the ratio of each pair counts. The bytes of both are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import trainload as tl
from machine import machine
from trainload.cluster.ray_tasks import cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--volumes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    started = time.perf_counter()
    with cluster(None, args.jobs):
        start_seconds = time.perf_counter() - started
        pack(args, on_ray=True)  # the processes of Ray load the package once
        rows = []
        for n in range(args.rounds):
            first_on_ray = bool(n % 2)  # what drifts meanwhile falls on both
            first, second = pack(args, on_ray=first_on_ray), pack(args, on_ray=not first_on_ray)
            (ray, others), (alone, digests) = (first, second) if first_on_ray else (second, first)
            if digests != others:
                sys.exit("the two packs differ")
            rows.append({"jobs": alone, "ray": ray, "ratio": ray / alone})
            print("  ".join(f"{name} {value:,.3f}" for name, value in rows[-1].items()), flush=True)
    ratio = statistics.median(row["ratio"] for row in rows)
    report = {
        "machine": machine(),
        "command": sys.argv,
        "jobs": args.jobs,
        "volumes": args.volumes,
        "unit": "pictures/s",
        "ray_start_seconds": start_seconds,
        "median_ratio": ratio,
        "rounds": rows,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "pack_cluster.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"Ray with {args.jobs} workers packs at {ratio:.3f} of --jobs {args.jobs} (at least 0.9 is asked for)")


def pack(args: argparse.Namespace, *, on_ray: bool) -> tuple[float, list[str]]:
    """Pictures per second, and the SHA-256 of each volume."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.dts"
        start = time.perf_counter()
        if on_ray:
            summary = tl.pack_images(args.source, out, level=3, volumes=args.volumes, on="ray")
        else:
            summary = tl.pack_images(args.source, out, level=3, volumes=args.volumes, jobs=args.jobs)
        rate = summary.pictures / (time.perf_counter() - start)
        return rate, [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(folder).glob("*.dts"))]


if __name__ == "__main__":
    main()
