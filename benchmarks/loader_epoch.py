"""What the loader itself costs: its epochs against the bare core on the same pictures, its start, its checksums.

usage: loader_epoch.py --data CLASS_FOLDERS [--level 3] [--rounds 5]      writes bench-out/loader_epoch.json

core: threads that call the core on pictures that lie in memory, in the loader's order and slices, nothing else. loader:
whole epochs of trainload.ImageLoader over the same file, FULLY and PARTIAL. Both in one process, round by round in
turn, since a shared machine's speed drifts; medians. start: from `iter(loader)` to its return, and to the first batch,
in epochs after the first; it cannot be less than what one batch takes the core. verify: checksums of all blocks against
the CPU time of one epoch. large: planning an epoch of 1,281,167 samples, made ahead and not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import trainload as tl
from machine import machine
from trainload.images.decode import PictureDecoder
from trainload.images.loading.picture_sets import Places
from trainload.images.loading.planning import Planner, Workforce
from trainload.running.order import Cut, OrderRule
from trainload.running.selection import select

BATCH_SIZE, SLICE, STARTS = 128, 16, 6
OPS = [tl.RandomResizedCrop(224), tl.RandomHorizontalFlip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of class folders of JPEGs")
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    path = args.out / f"loader-epoch-lv{args.level}.dts"
    if not path.exists():
        tl.pack_images(args.data, path, level=args.level)
    report = {"machine": machine(), "level": args.level, "rounds": args.rounds, **_epochs(path, args.rounds)}
    report |= {"verify": _verify(path), "large": _large_set()}
    (args.out / "loader_epoch.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def _epochs(path: Path, rounds: int) -> dict[str, Any]:
    ds = tl.open(path)
    loaders = {mode: tl.ImageLoader(ds, batch_size=BATCH_SIZE, ops=OPS, mode=mode) for mode in ("fully", "partial")}
    contenders: dict[str, Callable[[], int]] = {"core": _bare_core(ds, loaders["fully"])}
    contenders |= {
        mode: lambda loader=loader: sum(len(labels) for _, labels in loader)  # type: ignore[misc]
        for mode, loader in loaders.items()
    }
    found: dict[str, list[tuple[float, float]]] = {name: [_timed(run)][:0] for name, run in contenders.items()}
    for _, (name, run) in itertools.product(range(rounds), contenders.items()):
        found[name].append(_timed(run))
    medians = {name: [statistics.median(column) for column in zip(*values)] for name, values in found.items()}
    return {
        "pictures_per_second": {name: round(values[0], 1) for name, values in medians.items()},
        "cpu_ms_per_picture": {name: round(values[1], 4) for name, values in medians.items()},
        "of_the_core": {mode: round(medians[mode][0] / medians["core"][0], 4) for mode in loaders},
        "start_ms": {mode: _start(loader) for mode, loader in loaders.items()},
        "one_batch_of_the_core_ms": round(1000 * BATCH_SIZE / medians["core"][0], 2),
        "bottleneck": {mode: loader.stats.bottleneck for mode, loader in loaders.items()},
    }


def _timed(run: Callable[[], int]) -> tuple[float, float]:
    """Pictures per second and CPU milliseconds per picture."""
    cpu, start = _cpu_seconds(), time.perf_counter()
    count = run()
    return count / (time.perf_counter() - start), 1000 * (_cpu_seconds() - cpu) / count


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _bare_core(ds: Any, loader: Any) -> Callable[[], int]:
    """All pictures by as many threads as the loader has, each with its own slices of the epoch's order."""
    blocks = [ds.block(k) for k in range(ds.num_blocks)]
    arena = np.concatenate([np.frombuffer(block.data, np.uint8) for block in blocks])
    offsets = (ds.block_of.astype(np.int64) * ds.block_size + ds.offset_in_block).astype(np.uint64)
    sizes = ds.sizes.astype(np.uint64)
    decoder = PictureDecoder(OPS)
    epoch = itertools.count()

    def work(order: np.ndarray[Any, Any], number: int, n: int) -> None:
        scratch = decoder.new_scratch()
        images = np.empty((SLICE, *decoder.shape), decoder.dtype)
        for at in range(n * SLICE, len(order), loader.workers * SLICE):
            ids = order[at : at + SLICE]
            codes = np.zeros(len(ids), np.int32)
            decoder.run(
                scratch, arena, offsets[ids], sizes[ids], ids.astype(np.uint64), 0, number, images[: len(ids)], codes
            )

    def run() -> int:
        number = next(epoch)
        order = loader.epoch_ids(number)
        threads = [threading.Thread(target=work, args=(order, number, n)) for n in range(loader.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(order)

    return run


def _start(loader: Any) -> dict[str, float]:
    """Milliseconds, medians: after epochs that were read to their end, and after iterators that were abandoned."""
    found: dict[str, list[float]] = {"iter": [], "first_batch": [], "first_batch_after_a_break": []}
    for n in range(2 * STARTS):
        start = time.perf_counter()
        iterator = iter(loader)
        found["iter"].append(time.perf_counter() - start)
        next(iterator)
        if n:
            found["first_batch" if n <= STARTS else "first_batch_after_a_break"].append(time.perf_counter() - start)
        if n < STARTS:
            for _ in iterator:
                pass
        iterator.close()
    return {name: round(1000 * statistics.median(values), 2) for name, values in found.items()}


def _verify(path: Path) -> dict[str, float]:
    ds = tl.DtsReader(path)
    blocks = [ds.block(k) for k in range(ds.num_blocks)]
    start = time.perf_counter()
    for block in blocks:
        ds.check_block(block.id, block.data)
    seconds = time.perf_counter() - start
    loader = tl.ImageLoader(ds, batch_size=BATCH_SIZE, ops=OPS)
    _, cpu_ms = _timed(lambda: sum(len(labels) for _, labels in loader))
    return {"seconds": round(seconds, 5), "share_of_an_epochs_cpu": round(seconds / (cpu_ms / 1000 * len(ds)), 5)}


def _large_set(count: int = 1_281_167, per_block: int = 146) -> dict[str, float]:
    unit = np.arange(count) // per_block
    blocks = int(unit[-1]) + 1
    start = (np.arange(count) % per_block) * 110_016
    places = Places(unit, start, np.full(count, 110_000), np.full(blocks, 16 << 20), np.bincount(unit))
    planner = Planner(
        select(count, unit, None, None),
        Cut(256),
        Workforce(2, 2, 3, verify=True),
        places=places,
        has_blocks=True,
    )
    rule = OrderRule(0, "group", 8)
    begin = time.perf_counter()
    planner.prepare(rule, 1, 128 << 20)
    prepared = time.perf_counter()
    planner.plan(rule, 1, 0, 128 << 20)
    return {
        "made_ahead_ms": round(1000 * (prepared - begin), 1),
        "at_the_start_ms": round(1000 * (time.perf_counter() - prepared), 3),
    }


if __name__ == "__main__":
    main()
