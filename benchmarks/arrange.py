"""What an arrangement of ImageNet's size costs and wastes: lognormal sizes, against sorting them.

usage: arrange.py [--count 1281167] [--rounds 5]   writes bench-out/arrange.json

Sizes: lognormal with mean 110 KB and sigma 0.62, cut to 600 B .. 15 MB. `sorted` sorts them as a Python list, `np.sort`
as an int64 array with the processor's widest vectors; both are given. Unused is what the blocks have room for beyond
the pictures with their padding.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from machine import machine
from trainload.images.format.dts import BLOCK_HEADER_SIZE, BLOCK_SIZE, block_capacity
from trainload.images.packing import arrange

MEAN, SIGMA, LEAST, MOST = 110_000, 0.62, 600, 15_000_000
CAPACITY = BLOCK_SIZE - BLOCK_HEADER_SIZE[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_281_167)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    draws = np.random.default_rng(0).lognormal(np.log(MEAN) - SIGMA**2 / 2, SIGMA, args.count)
    sizes = draws.clip(LEAST, MOST).astype(np.int64)
    as_list = sizes.tolist()
    least = arrange.lower_bound(sizes, CAPACITY)
    genuine = round(arrange.GENUINE_SHARE * least)
    most = block_capacity(BLOCK_HEADER_SIZE[0])
    ways: dict[str, Callable[[], list[np.ndarray]]] = {
        "mixed": lambda: arrange.mixed_arrangement(sizes, arrange.random_order(len(sizes), 42), CAPACITY, most),
        "reference": lambda: arrange.reference_arrangement(sizes, CAPACITY, genuine),
        "reference, auto": lambda: arrange.reference_arrangement(sizes, CAPACITY),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ("sorted", "np.sort", *ways)}
    facts = {}
    for _ in range(args.rounds):
        clock(seconds["sorted"], lambda: sorted(as_list))
        clock(seconds["np.sort"], lambda: np.sort(sizes))
        for name, way in ways.items():
            facts[name] = describe(clock(seconds[name], way), sizes, least)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, each in facts.items():
        each |= {
            "seconds": medians[name],
            "times_sorted": medians[name] / medians["sorted"],
            "times_np_sort": medians[name] / medians["np.sort"],
        }
        print(
            f"{name:16} {each['blocks']:,} blocks (at least {least:,}), {100 * each['unused_share']:.4f} % unused, "
            f"{each['seconds']:.2f} s: {each['times_sorted']:.1f} x sorted, {each['times_np_sort']:.0f} x np.sort"
        )
    report = {"machine": machine(), "count": args.count, "lower_bound": least, "median_seconds": medians, "ways": facts}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "arrange.json").write_text(json.dumps(report, indent=1) + "\n")


def clock(seconds: list[float], call: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    value = call()
    seconds.append(time.perf_counter() - start)
    return value


def describe(blocks: list[np.ndarray], sizes: np.ndarray, least: int) -> dict[str, float]:
    counts = [len(block) for block in blocks]
    assert sum(counts) == len(sizes)
    used = int(arrange.aligned_sizes(sizes).sum())
    return {
        "blocks": len(blocks),
        "unused_share": 1 - used / (len(blocks) * CAPACITY),
        "most_in_a_block": max(counts),
        "lower_bound_share": least / len(blocks),
    }


if __name__ == "__main__":
    main()
