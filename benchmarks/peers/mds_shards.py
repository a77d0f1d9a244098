"""MosaicML Streaming: MDS shards of JPEG bytes in DataLoader workers, torchvision.io decode."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import streaming
import torch

from harness import BATCH_SIZE, arguments, measure, once, pictures
from torch_side import decoder

args = arguments()


class Pictures(streaming.StreamingDataset):
    """Decodes in the worker."""

    decode = staticmethod(decoder(args.kind))

    def __getitem__(self, index: Any) -> tuple[torch.Tensor, int]:
        item = super().__getitem__(index)
        return self.decode(item["image"]), item["label"]


def write(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with streaming.MDSWriter(out=str(folder), columns={"image": "bytes", "label": "int"}) as out:
        for file, label in pictures(args.data):
            out.write({"image": file.read_bytes(), "label": label})


if __name__ == "__main__":
    streaming.base.util.clean_stale_shared_memory()
    folder = once(args.work / "mds", write)
    data = Pictures(local=str(folder), shuffle=True, batch_size=BATCH_SIZE)
    loader: Any = torch.utils.data.DataLoader(data, BATCH_SIZE, num_workers=args.threads)
    measure("MDS (shards)", lambda: loader, args, lambda batch: len(batch[0]))
