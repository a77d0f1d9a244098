"""WebDataset: tar shards in DataLoader workers, torchvision.io decode."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import torch
import webdataset

from harness import BATCH_SIZE, arguments, measure, once, pictures
from torch_side import decoder

args = arguments()
SHARDS = 8


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    files = pictures(args.data)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:04d}.tar", "w") as tar:
            for n, (file, label) in enumerate(files[shard::SHARDS]):
                for ending, data in (("jpg", file.read_bytes()), ("cls", str(label).encode())):
                    info = tarfile.TarInfo(f"{n:06d}.{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


folder = once(args.work / "webdataset", write)
decode = decoder(args.kind)


def sample(item: tuple[bytes, bytes]) -> tuple[torch.Tensor, int]:
    return decode(item[0]), int(item[1])


shards = [str(path) for path in sorted(folder.glob("*.tar"))]
data: Any = webdataset.WebDataset(shards, shardshuffle=SHARDS, empty_check=False, nodesplitter=None).shuffle(1000)
data = data.to_tuple("jpg", "cls").map(sample).batched(BATCH_SIZE)
loader = torch.utils.data.DataLoader(data, None, num_workers=args.threads)
measure("WebDataset (tar shards)", lambda: loader, args, lambda batch: len(batch[0]))
