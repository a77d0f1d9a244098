"""FFCV: a .beton of JPEGs, or of pixels, its RandomResizedCrop decoder, shuffled."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from torchvision.datasets import ImageFolder

from harness import BATCH_SIZE, MEAN, STD, arguments, measure, once

warnings.filterwarnings("ignore")
args = arguments()


def write(path: Path) -> None:
    image = RGBImageField(write_mode="raw" if args.raw else "jpg", jpeg_quality=args.quality)
    writer = DatasetWriter(str(path), {"image": image, "label": IntField()}, num_workers=args.threads)
    writer.from_indexed_dataset(ImageFolder(args.data))


beton = once(args.work / ("raw.beton" if args.raw else "set.beton"), write)
last = [NormalizeImage(np.array(MEAN) * 255, np.array(STD) * 255, np.float32)] if args.kind == "float32" else []
image = [RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip(), *last, ToTensor(), ToTorchImage()]
loader = Loader(
    str(beton),
    batch_size=BATCH_SIZE,
    num_workers=args.threads,
    order=OrderOption.RANDOM,
    os_cache=True,
    drop_last=False,
    pipelines={"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]},
)
measure(f"FFCV (.beton, {'pixels' if args.raw else 'JPEG'})", lambda: loader, args, lambda batch: len(batch[0]))
