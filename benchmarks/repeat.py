"""CPU time per augmented sample where a picture gives several samples: decoded once for all, and each by itself.

usage: repeat.py --data SET.dts [--count 200] [--rounds 5]      writes bench-out/repeat.json

The core alone, RandomResizedCrop(224) and a flip, on one thread, entry points known. alone: the same samples in an
order in which no two of a picture are neighbours. Best of the rounds, microseconds of process time per sample.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import trainload as tl
from machine import machine
from trainload import _core
from trainload.images.decode import PictureDecoder

OPS = [tl.RandomResizedCrop(224), tl.RandomHorizontalFlip()]
REPEATS = 1, 2, 4, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a DTS file of photographs")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    with tl.open_images(args.data) as ds:
        assert isinstance(ds, tl.DtsReader)
        encoded = [np.frombuffer(sample.data, np.uint8) for sample in ds.samples(np.arange(min(args.count, len(ds))))]
    report: dict[str, Any] = {"machine": machine(), "pictures": len(encoded), "data": str(args.data)}
    report["microseconds_per_sample"] = {str(repeat): _measure(encoded, repeat, args.rounds) for repeat in REPEATS}
    (args.out / "repeat.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def _measure(encoded: list[NDArray[np.uint8]], repeat: int, rounds: int) -> dict[str, float]:
    arena = np.concatenate(encoded)
    sizes = np.array([len(one) for one in encoded], np.uint64)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.uint64)
    pictures = np.repeat(np.arange(len(encoded)), repeat)
    draws = np.tile(np.arange(repeat, dtype=np.uint32), len(encoded))
    apart = np.argsort(draws, kind="stable")
    decoder = PictureDecoder(OPS, entry_points=_core.EntryPointStore(1 << 30))
    scratch = decoder.new_scratch()
    images = np.empty((len(pictures), *decoder.shape), np.uint8)
    best = {"together": float("inf"), "alone": float("inf")}
    for epoch in range(rounds + 1):  # the first one finds the entry points
        for name, order in (("together", np.arange(len(pictures))), ("alone", apart)):
            rows, codes = pictures[order], np.zeros(len(pictures), np.int32)
            arguments = scratch, arena, offsets[rows], sizes[rows], rows.astype(np.uint64), 0, epoch
            started = time.process_time()
            decoder.run(*arguments, images, codes, draws[order])
            if epoch:
                best[name] = min(best[name], (time.process_time() - started) / len(pictures) * 1e6)
            assert not codes.any()
    return {name: round(value, 1) for name, value in best.items()}


if __name__ == "__main__":
    main()
