"""How most training scripts read pictures, as the demo's yardstick: Pillow in worker processes, as many as cores."""

from __future__ import annotations

import math
import random
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from PIL import Image, ImageOps

from trainload.machine.cpus import usable_cpus

CHUNK = 16


class PillowFolder:
    """A folder of class folders behind worker processes; `epoch()` reads every picture once."""

    def __init__(self, data: Path) -> None:
        self._files = sorted(str(path) for path in data.rglob("*") if path.is_file())
        self._pool = ProcessPoolExecutor(usable_cpus(), mp_context=get_context("spawn"))

    def epoch(self) -> tuple[int, float]:
        """(pictures, CPU seconds of the workers)."""
        random.Random(0).shuffle(self._files)
        chunks = [self._files[start : start + CHUNK] for start in range(0, len(self._files), CHUNK)]
        return len(self._files), sum(self._pool.map(_read_chunk, chunks))

    def close(self) -> None:
        """End the workers."""
        self._pool.shutdown()


def _read_chunk(files: list[str]) -> float:
    """Decode, crop, resize and maybe flip each picture as torchvision does on Pillow; returns CPU seconds."""
    start = time.process_time()
    for name in files:
        rng = random.Random(name)
        with Image.open(name) as file:
            picture = file.convert("RGB")
        picture = picture.resize((224, 224), Image.Resampling.BILINEAR, box=_crop_box(rng, *picture.size))
        if rng.random() < 0.5:
            picture = ImageOps.mirror(picture)
    return time.process_time() - start


def _crop_box(rng: random.Random, width: int, height: int) -> tuple[int, int, int, int]:
    """RandomResizedCrop's box (left, top, right, bottom)."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = rng.randint(0, width - w), rng.randint(0, height - h)
            return left, top, left + w, top + h
    return 0, 0, width, height
