"""What torch-based contenders do with JPEG bytes: decode_jpeg and transforms v2, torchvision's fastest way."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from harness import MEAN, STD


def decoder(kind: str) -> Callable[[bytes], torch.Tensor]:
    """JPEG bytes -> a (3, 224, 224) tensor: RandomResizedCrop, flip, then uint8 as it is or float32 normalised."""
    torch.set_num_threads(1)
    steps: list[torch.nn.Module] = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    if kind == "float32":
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    transform = v2.Compose(steps)

    def decode(data: bytes) -> torch.Tensor:
        pixels = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), mode=ImageReadMode.RGB)
        return transform(pixels)

    return decode
