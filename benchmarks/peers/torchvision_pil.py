"""torchvision's ImageFolder with Pillow in DataLoader workers: the way most training scripts read."""

from __future__ import annotations

import torch
from torchvision import datasets, transforms

from harness import BATCH_SIZE, MEAN, STD, arguments, measure

args = arguments()
steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
if args.kind == "float32":
    steps[2:] = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
data = datasets.ImageFolder(args.data, transforms.Compose(steps))
loader = torch.utils.data.DataLoader(data, BATCH_SIZE, shuffle=True, num_workers=args.threads)
measure("torchvision ImageFolder (PIL)", lambda: loader, args, lambda batch: len(batch[0]))
