"""TurboLoader: a tar of JPEGs, its fused RandomResizedCrop + flip with region decode (float32 only)."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import turboloader

from harness import BATCH_SIZE, arguments, measure, once, pictures

args = arguments()
if args.kind != "float32":
    raise SystemExit("TurboLoader's augmented tar path gives float32 only")


def write(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for n, (file, label) in enumerate(pictures(args.data)):
            tar.add(file.resolve(), f"{label:04d}/{n:06d}.jpg")


tar_path = once(args.work / "set.tar", write)
loader = turboloader.DataLoader(
    str(tar_path),
    batch_size=BATCH_SIZE,
    num_workers=args.threads,
    shuffle=True,
    image_size=224,
    train_aug=True,
    antialias=True,
    output_format="numpy_chw",
    transform=turboloader.ImageNetNormalize(),
)
numbers = itertools.count()


def epoch() -> Iterator[Any]:
    loader.set_epoch(next(numbers))
    yield from loader


measure("TurboLoader (tar, train_aug)", epoch, args, lambda batch: len(batch[0] if isinstance(batch, tuple) else batch))
