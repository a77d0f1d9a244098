"""Loaders of both kinds for the tests with real trainers, and what a training step saw of their batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trainload as tl
from drive_data import write_drive
from loading_data import jpegs, write_dts

COUNT, BATCH = 22, 4  # the last batch is a short one
KINDS = ["pictures", "recordings"]


def maker(kind: str, folder: Path) -> Callable[..., Any]:
    """make(**options): a new loader of one kind, as another run of the same program makes it."""
    import trainload.torch as tlt

    if kind == "recordings":
        path = write_drive(folder / "0.hfr", seconds=2.2).path

        def make(**options: Any) -> Any:
            dataset = tlt.WindowDataset([path], streams=["odometry"])
            return tlt.HyperframeLoader(dataset, **{"batch_size": BATCH, "workers": 1, "seed": 3, **options})
    else:
        path = write_dts(folder / "set.dts", jpegs(COUNT), [n % 4 for n in range(COUNT)], 10)

        def make(**options: Any) -> Any:
            ops = [tl.RandomResizedCrop(8), tl.Normalize.imagenet()]
            given = {"batch_size": BATCH, "ops": ops, "with_ids": True, "workers": 1, "seed": 3, "shuffle": "full"}
            return tlt.ImageLoader(path, **{**given, **options})

    return make


def ids_of(batch: Any) -> list[int]:
    if isinstance(batch, dict):
        return [int(i) for i in batch["ids"]]
    return [int(i) for i in (batch.ids if hasattr(batch, "ids") else batch[2])]


def epochs(loader: Any, numbers: Any) -> list[int]:
    """The ids of these epochs, one after the other, as the law has them."""
    return [int(i) for epoch in numbers for i in loader.epoch_ids(epoch)]


def read(batches: Any) -> list[int]:
    return [i for batch in batches for i in ids_of(batch)]
