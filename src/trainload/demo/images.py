"""Training reads, measured: the same epochs by Pillow from a class folder, then from folder, LV0 and LV3."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainload.demo.pillow import PillowFolder
from trainload.images.loading.image_loader import ImageLoader
from trainload.images.ops.operations import RandomHorizontalFlip, RandomResizedCrop
from trainload.images.packing.images import pack_images
from trainload.open_any import open as open_set

BATCH_SIZE = 64
PILLOW = "folder, Pillow"

Run = tuple[int, float, float]  # pictures, seconds, CPU seconds of one epoch


@dataclass(frozen=True)
class Row:
    """What one way of reading cost: pictures/s, CPU milliseconds per picture (all threads), bytes on disk."""

    name: str
    pictures: int
    pictures_per_s: float
    cpu_ms_per_picture: float
    bytes_on_disk: int

    def facts(self) -> dict[str, Any]:
        """The row as JSON-able values."""
        return asdict(self)


def measure_images(data: Path, out: Path, *, epochs: int, tell: Callable[[str], None]) -> list[Row]:
    """Pack `data` (a folder of class folders) at LV0 and LV3 into `out`, then time `epochs` epochs of each form.

    One warm-up epoch per form comes first, so that every form reads from the page cache or from memory. The forms take
    turns, epoch by epoch, so that a machine whose speed drifts is fair to all of them.
    """
    forms: dict[str, Path] = {"folder, trainload": data}
    for level in (0, 3):
        target = out / f"lv{level}.dts"
        tell(f"packing LV{level}")
        pack_images(data, target, level=level, overwrite=True)
        forms[f"DTS LV{level}"] = target
    ops = [RandomResizedCrop(224), RandomHorizontalFlip()]
    loaders = {
        name: ImageLoader(open_set(path), batch_size=BATCH_SIZE, ops=ops, seed=0) for name, path in forms.items()
    }
    pillow = PillowFolder(data)
    epochs_of: dict[str, Callable[[], Run]] = {PILLOW: lambda: _pillow_epoch(pillow)}
    epochs_of |= {name: partial(_epoch, loader) for name, loader in loaders.items()}
    runs: dict[str, list[Run]] = {name: [] for name in epochs_of}
    for epoch in range(epochs + 1):
        for name, run in epochs_of.items():
            tell(f"epoch {epoch} of {epochs}: {name}" if epoch else f"warming up: {name}")
            runs[name].append(run())
    _sheet(loaders["DTS LV3"], out / "batch.png")
    pillow.close()
    for loader in loaders.values():
        loader.close()
    return [_row(name, runs[name][1:], forms.get(name, data)) for name in runs]


def _pillow_epoch(pillow: PillowFolder) -> Run:
    wall = time.perf_counter()
    count, cpu_seconds = pillow.epoch()
    return count, time.perf_counter() - wall, cpu_seconds


def _epoch(loader: ImageLoader) -> Run:
    wall, cpu, count = time.perf_counter(), _cpu_seconds(), 0
    for images, _ in loader:
        count += len(images)
    return count, time.perf_counter() - wall, _cpu_seconds() - cpu


def _row(name: str, runs: list[Run], path: Path) -> Row:
    pictures, seconds, cpu_seconds = (float(sum(values)) for values in zip(*runs))
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return Row(
        name=name,
        pictures=round(pictures),
        pictures_per_s=pictures / seconds,
        cpu_ms_per_picture=cpu_seconds * 1000 / pictures,
        bytes_on_disk=sum(file.stat().st_blocks * 512 for file in files),
    )


def _sheet(loader: ImageLoader, path: Path, columns: int = 8, rows: int = 4) -> None:
    """One batch as training sees it, as a picture."""
    batches: Iterator[Any] = iter(loader)
    images = np.asarray(next(batches)[0])[: columns * rows]
    del batches
    side = images.shape[1]
    sheet = Image.new("RGB", (columns * side, rows * side))
    for n, image in enumerate(images):
        sheet.paste(Image.fromarray(image), (n % columns * side, n // columns * side))
    sheet.resize((columns * side // 2, rows * side // 2)).save(path)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
