"""NVIDIA DALI's CPU pipeline: region decode by random crop, antialiased resize, mirror, normalise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvidia.dali import fn, pipeline_def, types

from harness import BATCH_SIZE, MEAN, STD, arguments, measure

args = arguments()
mean, std = [255 * value for value in MEAN], [255 * value for value in STD]


@pipeline_def(batch_size=BATCH_SIZE, num_threads=args.threads, device_id=None, seed=1)
def pipeline() -> Any:
    jpeg, label = fn.readers.file(file_root=str(args.data), random_shuffle=True, name="reader")
    image = fn.decoders.image_random_crop(
        jpeg, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
    )
    image = fn.resize(image, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
    if args.kind == "float32":
        mirror = fn.random.coin_flip()
        image = fn.crop_mirror_normalize(image, mirror=mirror, mean=mean, std=std, output_layout="CHW")
    else:
        image = fn.flip(image, horizontal=fn.random.coin_flip())
    return image, label


built = pipeline()
built.build()
steps = built.reader_meta("reader")["epoch_size_padded"] // BATCH_SIZE


def epoch() -> Iterator[Any]:
    for _ in range(steps):
        yield built.run()


measure("DALI CPU (image_random_crop)", epoch, args, lambda batch: len(batch[0]))
