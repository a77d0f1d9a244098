"""SPDL: FFmpeg's decoder in a thread pool, crop, scale and flip as one FFmpeg filter graph a picture."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import spdl.io
from spdl.pipeline import PipelineBuilder

from harness import BATCH_SIZE, MEAN, STD, arguments, measure, pictures

args = arguments()
files = pictures(args.data)
mean, std = np.array(MEAN, np.float32) * 255, np.array(STD, np.float32) * 255
rng = random.Random(1)


def crop_box(width: int, height: int) -> tuple[int, int, int, int]:
    """torchvision's RandomResizedCrop: (w, h, x, y)."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return w, h, rng.randint(0, width - w), rng.randint(0, height - h)
    side = min(width, height)
    return side, side, (width - side) // 2, (height - side) // 2


def decode(item: tuple[Any, int]) -> tuple[Any, int]:
    packets = spdl.io.demux_image(str(item[0]))
    w, h, x, y = crop_box(packets.width, packets.height)
    flip = ",hflip" if rng.random() < 0.5 else ""
    graph = f"crop={w}:{h}:{x}:{y}:exact=1,scale=224:224:flags=bilinear{flip},format=pix_fmts=rgb24"
    return spdl.io.decode_packets(packets, graph), item[1]


def stack(items: list[tuple[Any, int]]) -> tuple[Any, Any]:
    images = spdl.io.to_numpy(spdl.io.convert_frames([frames for frames, _ in items]))
    if args.kind == "float32":
        images = ((images - mean) / std).astype(np.float32, copy=False)
    return images, np.array([label for _, label in items])


def epoch() -> Iterator[Any]:
    random.shuffle(files)
    builder = PipelineBuilder().add_source(iter(files)).pipe(decode, concurrency=args.threads, output_order="input")
    pipeline = builder.aggregate(BATCH_SIZE).pipe(stack).add_sink(3).build(num_threads=args.threads)
    with pipeline.auto_stop():
        yield from pipeline


measure("SPDL (FFmpeg threads)", epoch, args, lambda batch: len(batch[0]))
