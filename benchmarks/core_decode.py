"""Pictures per second and CPU time per picture of the core: region decode alone, + resample, + normalise.

usage: core_decode.py FOLDER [--threads N] [--seconds S] [--pictures N] [--json FILE]

FOLDER holds JPEGs at any depth. They are measured as they are (LV0) and shrunk as level 3 packs them (short side 400,
long side cut to 600, quality 80), without restart markers, with one per MCU row, and with one every few MCUs; each the
first time (a first epoch) and with the entry points that four other epochs have left (a later one).
RandomResizedCrop 224 and a flip; the crops differ from round to round and are the same for every line.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import _core_testing
from machine import machine
from trainload import _core

OPS = [("random_resized_crop", 0, [224, 224, 0.08, 1.0, 3 / 4, 4 / 3]), ("horizontal_flip", 1, [0.5])]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SLICE = 16
EPOCHS = 4  # that the rounds repeat; entry points come from as many others


def level3(encoded: bytes, **restart: int) -> bytes:
    with Image.open(io.BytesIO(encoded)) as stored:
        picture = stored.convert("RGB")
        scale = min(1.0, 400 / min(picture.size))
        width, height = round(picture.width * scale), round(picture.height * scale)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
        left, top = max(0, width - 600) // 2, max(0, height - 600) // 2
        picture = picture.crop((left, top, left + min(600, width), top + min(600, height)))
        made = io.BytesIO()
        picture.save(made, "JPEG", quality=80, **restart)
    return made.getvalue()


class Corpus:
    """Pictures in one arena, as the loader has them."""

    def __init__(self, pictures: list[bytes]) -> None:
        self.arena = np.frombuffer(b"".join(pictures), np.uint8)
        self.sizes = np.array([len(picture) for picture in pictures], np.uint64)
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.uint64)
        self.ids = np.arange(len(pictures), dtype=np.uint64)

    def slice(self, first: int) -> tuple[Any, Any, Any, Any]:
        part = slice(first, first + SLICE)
        return self.arena, self.offsets[part], self.sizes[part], self.ids[part]


Step = Callable[[Any, Corpus, int, int, Any], None]


def steps(dct_scale: str, store: _core.EntryPointStore | None) -> dict[str, Step]:
    """Each measured line: a function of (scratch, corpus, first picture, epoch, buffers of the thread)."""
    pixels = _core.Pipeline(OPS, 224, 224, "uint8", "NHWC", [], [], dct_scale)
    floats = _core.Pipeline(OPS, 224, 224, "float32", "NCHW", MEAN, STD, dct_scale)

    def decode(scratch: Any, corpus: Corpus, first: int, epoch: int, buffers: Any) -> None:
        part = corpus.slice(first)
        _core_testing.run_decode_only(pixels, scratch, *part, 0, epoch, np.zeros(len(part[3]), np.int32), store)

    def whole(pipeline: Any, name: str) -> Step:
        def run(scratch: Any, corpus: Corpus, first: int, epoch: int, buffers: Any) -> None:
            part = corpus.slice(first)
            count = len(part[3])
            pipeline.run(scratch, *part, 0, epoch, buffers[name][:count], np.zeros(count, np.int32), store)

        return run

    return {"decode": decode, "decode + resample": whole(pixels, "pixels"), "+ normalise": whole(floats, "floats")}


def measure(step: Step, corpus: Corpus, threads: int, seconds: float) -> dict[str, float]:
    """Best round and mean CPU time of whole rounds over the corpus, one scratch per thread."""

    def new_buffers() -> dict[str, Any]:
        return {
            "pixels": np.empty((SLICE, 224, 224, 3), np.uint8),
            "floats": np.empty((SLICE, 3, 224, 224), np.float32),
        }

    scratches = [(_core.Scratch(), new_buffers()) for _ in range(threads)]

    def work(thread: int, epoch: int) -> None:
        scratch, buffers = scratches[thread]
        for first in range(thread * SLICE, len(corpus.ids), threads * SLICE):
            step(scratch, corpus, first, epoch, buffers)

    best, cpu, rounds, began = float("inf"), 0.0, 0, time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for epoch in range(EPOCHS, 2 * EPOCHS):
            list(pool.map(work, range(threads), [epoch] * threads))
        while rounds < 2 or time.perf_counter() - began < seconds:
            start, cpu_start = time.perf_counter(), time.process_time()
            list(pool.map(work, range(threads), [rounds % EPOCHS] * threads))
            best = min(best, time.perf_counter() - start)
            cpu += time.process_time() - cpu_start
            rounds += 1
    count = len(corpus.ids)
    return {"pictures_per_s": round(count / best, 1), "cpu_us_per_picture": round(cpu / rounds / count * 1e6, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=2.0, help="per line")
    parser.add_argument("--pictures", type=int, default=400)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    files = sorted(path for path in options.folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    encoded = [path.read_bytes() for path in files[:: max(1, len(files) // options.pictures)]]
    corpora = {
        "LV0": Corpus(encoded),
        "LV3": Corpus([level3(one) for one in encoded]),
        "LV3, a marker per row": Corpus([level3(one, restart_marker_rows=1) for one in encoded]),
        "LV3, a marker per 4 MCUs": Corpus([level3(one, restart_marker_blocks=4) for one in encoded]),
    }
    rows = []
    for name, corpus in corpora.items():
        for epoch, dct_scale in product(("first", "later"), ("off", "auto")):
            store = _core.EntryPointStore(len(corpus.arena) // 12) if epoch == "later" else None
            for step_name, step in steps(dct_scale, store).items():
                result = measure(step, corpus, options.threads, options.seconds)
                kb = round(float(corpus.sizes.mean()) / 1000, 1)
                row = {"data": name, "kb": kb, "epoch": epoch, "dct_scale": dct_scale}
                rows.append({**row, "step": step_name, **result})
                print(*rows[-1].values(), sep="\t", flush=True)
    if options.json:
        about = {"machine": machine(), "kernels": _core_testing.kernel_names()[-1], "threads": options.threads}
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
