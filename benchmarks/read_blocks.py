"""Reading all blocks of a level 0 file from the page cache, against a bare loop of 4 MB preads into one buffer.

usage: read_blocks.py [FILE.dts] [--rounds 80]   writes bench-out/read_blocks.json

Without FILE one of about 10 blocks is packed from noise. Contenders: `readinto` (DtsReader.readinto_block into one
buffer), `block` (DtsReader.block, fresh memory each time), `checked` (readinto and the block's CRC-32). In every round
each one reads the whole file, in turn; the ratio to the bare loop of the same round counts, the median is reported.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import trainload as tl
from machine import machine
from trainload.images.reading.dts import DtsReader

CHUNK_BYTES = 4 << 20
LIMIT = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--out", type=Path, default=Path("bench-out"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or make_file(Path(folder))
        with DtsReader(path) as ds:
            report = measure(ds, args.rounds)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "read_blocks.json").write_text(json.dumps(report, indent=1) + "\n")
    for name, row in report["contenders"].items():
        print(f"{name:9} {row['gb_per_s']:6.2f} GB/s   {row['ratio']:.2f} x the bare loop")
    print(f"limit for reading all blocks: {LIMIT}")


def make_file(folder: Path) -> Path:
    """A level 0 file of about 10 blocks, packed from JPEGs of noise."""
    rng = np.random.default_rng(0)
    for n in range(64):
        side = int(rng.integers(160, 380))
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(stream, "JPEG", quality=92)
        place = folder / "source" / f"class{n % 8}"
        place.mkdir(parents=True, exist_ok=True)
        for copy in range(26):
            (place / f"{n}-{copy}.JPEG").write_bytes(stream.getvalue())
    tl.pack_images(folder / "source", folder / "set.dts", level=0, overwrite=True)
    return folder / "set.dts"


def measure(ds: DtsReader, rounds: int) -> dict[str, Any]:
    """Every contender once per round, in an order that changes; medians over the rounds."""
    buffer = np.zeros(ds.block_size, np.uint8).data
    fd = os.open(ds.path, os.O_RDONLY)
    contenders: dict[str, Callable[[], None]] = {
        "bare": lambda: read_bare(fd, ds, buffer),
        "readinto": lambda: read_into(ds, buffer),
        "block": lambda: read_fresh(ds),
        "checked": lambda: read_checked(ds, buffer),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for turn in range(rounds + 1):
        random.Random(turn).shuffle(order)
        for name in order:
            start = time.perf_counter()
            contenders[name]()
            if turn:  # the first round warms the cache
                times[name].append(time.perf_counter() - start)
    os.close(fd)
    size = ds.num_blocks * ds.block_size
    rows = {
        name: {
            "gb_per_s": size / statistics.median(taken) / 1e9,
            "ratio": statistics.median(bare / one for bare, one in zip(times["bare"], taken)),
        }
        for name, taken in times.items()
    }
    facts = {"machine": machine(), "blocks": ds.num_blocks, "bytes": size, "limit": LIMIT}
    return facts | {"contenders": rows, "seconds": times}


def read_bare(fd: int, ds: DtsReader, buffer: memoryview) -> None:
    chunks = [buffer[start : start + CHUNK_BYTES] for start in range(0, ds.block_size, CHUNK_BYTES)]
    offset = ds.header.header_bytes
    for _ in range(ds.num_blocks):
        for chunk in chunks:
            assert os.preadv(fd, [chunk], offset) == CHUNK_BYTES
            offset += CHUNK_BYTES


def read_into(ds: DtsReader, buffer: memoryview) -> None:
    for k in range(ds.num_blocks):
        ds.readinto_block(k, buffer)


def read_fresh(ds: DtsReader) -> None:
    for k in range(ds.num_blocks):
        ds.block(k)


def read_checked(ds: DtsReader, buffer: memoryview) -> None:
    for k in range(ds.num_blocks):
        ds.readinto_block(k, buffer)
        ds.check_block(k, buffer)


if __name__ == "__main__":
    main()
