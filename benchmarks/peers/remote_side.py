"""LitData's or MDS's own loader over pictures in a bucket: one epoch, decoded by Pillow in two workers.

usage: remote_side.py litdata|mds write|read FOLDER BUCKET_URL CACHE   run by the peers' Python (benchmarks/remote.py)
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

BATCH_SIZE, WORKERS, SIDE = 128, 2, 224


def pixels(data: bytes) -> torch.Tensor:
    """RandomResizedCrop(224) and a flip, as torchvision draws them, at Pillow's speed; uint8 [224, 224, 3]."""
    with Image.open(io.BytesIO(data)) as stored:
        picture = stored.convert("RGB")
    width, height = picture.size
    area = width * height * random.uniform(0.08, 1.0)
    ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
    w, h = min(width, round((area * ratio) ** 0.5)), min(height, round((area / ratio) ** 0.5))
    left, top = random.randint(0, width - w), random.randint(0, height - h)
    box = (left, top, left + max(w, 1), top + max(h, 1))
    found = picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box)
    if random.random() < 0.5:
        found = found.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(found))


def pictures(folder: Path) -> list[tuple[Path, int]]:
    """(file, label) below the class folders, in an order of their own."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    found = [(file, label) for label, each in enumerate(classes) for file in sorted(each.iterdir())]
    random.Random(1).shuffle(found)
    return found


def read_item(item: tuple[str, int]) -> dict[str, Any]:
    """One sample, as LitData packs it."""
    return {"image": Path(item[0]).read_bytes(), "label": item[1]}


def litdata_loader(url: str, cache: Path) -> Any:
    """LitData's streaming data set and loader."""
    import litdata

    class Pictures(litdata.StreamingDataset):
        def __getitem__(self, index: Any) -> tuple[torch.Tensor, int]:
            item = super().__getitem__(index)
            return pixels(item["image"]), item["label"]

    options = {"endpoint_url": os.environ["S3_ENDPOINT_URL"]}
    directory = litdata.streaming.resolver.Dir(path=str(cache), url=url)
    data = Pictures(input_dir=directory, shuffle=True, storage_options=options)
    return litdata.StreamingDataLoader(data, batch_size=BATCH_SIZE, num_workers=WORKERS)


def mds_loader(url: str, cache: Path) -> Any:
    """MosaicML's streaming data set in DataLoader workers."""
    import streaming

    class Pictures(streaming.StreamingDataset):
        def __getitem__(self, index: Any) -> tuple[torch.Tensor, int]:
            item = super().__getitem__(index)
            return pixels(item["image"]), item["label"]

    streaming.base.util.clean_stale_shared_memory()
    data = Pictures(remote=url, local=str(cache), shuffle=True, batch_size=BATCH_SIZE)
    return torch.utils.data.DataLoader(data, BATCH_SIZE, num_workers=WORKERS)


def write(peer: str, source: Path, folder: Path) -> None:
    """Pack the pictures in the peer's form into a folder."""
    if peer == "litdata":
        import litdata

        inputs = [(str(file), label) for file, label in pictures(source)]
        litdata.optimize(read_item, inputs, str(folder), chunk_bytes="64MB", num_workers=1, mode="overwrite")
        return
    import streaming

    with streaming.MDSWriter(out=str(folder), columns={"image": "bytes", "label": "int"}) as out:
        for file, label in pictures(source):
            out.write({"image": file.read_bytes(), "label": label})


def cpu_seconds() -> float:
    """Of this process and of its children that ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Write a packed form, or read one epoch and print {pictures, seconds, cpu_seconds}."""
    peer, verb, place, target, cache = sys.argv[1:6]
    if verb == "write":
        write(peer, Path(place), Path(target))
        return
    started, cpu = time.perf_counter(), cpu_seconds()
    count = 0
    for images, _ in litdata_loader(target, Path(cache)) if peer == "litdata" else mds_loader(target, Path(cache)):
        count += len(images)
    print(json.dumps({"pictures": count, "seconds": time.perf_counter() - started, "cpu_seconds": cpu_seconds() - cpu}))


if __name__ == "__main__":
    main()
