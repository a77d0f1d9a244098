"""What every contender shares: its arguments, the clock, the line of JSON that it prints. Knows no contender."""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

BATCH_SIZE = 128
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def arguments() -> argparse.Namespace:
    """--data: class folders; --kind: what a batch holds; --work: where a packed form is kept between runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kind", choices=("uint8", "float32"), required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--quality", type=int, default=90, help="JPEG quality, for a form that encodes anew")
    parser.add_argument("--raw", action="store_true", help="keep pixels, for a form that can do without JPEG")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--epochs", type=int, default=2)
    found = parser.parse_args()
    found.work.mkdir(parents=True, exist_ok=True)
    return found


def measure(
    name: str, epoch: Callable[[], Iterable[Any]], args: argparse.Namespace, size: Callable[[Any], int]
) -> None:
    """Run one warm-up epoch and `args.epochs` measured ones; print {name, kind, pictures_per_s, cpu_ms_per_picture}.

    epoch() gives an iterable over the batches of one epoch; size(batch) says how many pictures a batch holds. CPU time
    is that of this process and of its ended children, so worker processes must end with their epoch.
    """
    for _ in epoch():
        pass
    count, cpu, wall = 0, _cpu_seconds(), time.perf_counter()
    for _ in range(args.epochs):
        for batch in epoch():
            count += size(batch)
    wall = time.perf_counter() - wall
    cpu = _cpu_seconds() - cpu
    print(
        json.dumps(
            {
                "name": name,
                "kind": args.kind,
                "pictures": count,
                "pictures_per_s": count / wall,
                "cpu_ms_per_picture": cpu * 1000 / count,
            }
        ),
        flush=True,
    )


def pictures(data: Path) -> list[tuple[Path, int]]:
    """(file, label) of every picture below the class folders, sorted, then shuffled by a fixed seed."""
    classes = sorted(folder for folder in data.iterdir() if folder.is_dir())
    found = [(file, label) for label, folder in enumerate(classes) for file in sorted(folder.iterdir())]
    random.Random(1).shuffle(found)
    return found


def once(path: Path, make: Callable[[Path], object]) -> Path:
    """`path`, made by make(path) unless an earlier run made it."""
    done = path.with_name(path.name + ".done")
    if not done.exists():
        make(path)
        done.touch()
    return path


def _cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
