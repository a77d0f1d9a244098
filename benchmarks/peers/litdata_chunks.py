"""LitData: optimised chunks of JPEG bytes, StreamingDataLoader, torchvision.io decode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import litdata
import torch

from harness import BATCH_SIZE, arguments, measure, once, pictures
from torch_side import decoder

args = arguments()


def read(item: tuple[str, int]) -> dict[str, Any]:
    return {"image": Path(item[0]).read_bytes(), "label": item[1]}


class Pictures(litdata.StreamingDataset):
    """Decodes in the worker."""

    decode = staticmethod(decoder(args.kind))

    def __getitem__(self, index: Any) -> tuple[torch.Tensor, int]:
        item = super().__getitem__(index)
        return self.decode(item["image"]), item["label"]


def write(folder: Path) -> None:
    inputs = [(str(file), label) for file, label in pictures(args.data)]
    litdata.optimize(read, inputs, str(folder), chunk_bytes="64MB", num_workers=args.threads, mode="overwrite")


if __name__ == "__main__":
    folder = once(args.work / "litdata", write)
    data = Pictures(str(folder), shuffle=True)
    loader = litdata.StreamingDataLoader(data, batch_size=BATCH_SIZE, num_workers=args.threads)
    measure("LitData (chunks)", lambda: loader, args, lambda batch: len(batch[0]))
