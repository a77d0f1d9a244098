"""torchvision's ImageFolder with torchvision.io.decode_jpeg in DataLoader workers."""

from __future__ import annotations

from pathlib import Path

import torch
from torchvision import datasets

from harness import BATCH_SIZE, arguments, measure
from torch_side import decoder

args = arguments()
decode = decoder(args.kind)
data = datasets.ImageFolder(args.data, loader=lambda path: decode(Path(path).read_bytes()))
loader = torch.utils.data.DataLoader(data, BATCH_SIZE, shuffle=True, num_workers=args.threads)
measure("torchvision ImageFolder (io)", lambda: loader, args, lambda batch: len(batch[0]))
