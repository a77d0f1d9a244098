"""A timm model, its schedule and its soft-target loss, with MixUp in the loader.

usage: python examples/train_timm.py train.dts           (pip install timm)
"""

from __future__ import annotations

import sys

import timm
import torch
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

import trainload as tl
import trainload.torch as tlt

EPOCHS = 2


def main() -> None:
    with tl.open_images(sys.argv[1]) as ds:
        classes = len(ds.class_names)
    ops = [
        tl.RandomResizedCrop(64),
        tl.RandomHorizontalFlip(),
        tl.RandAugment(),
        tl.Normalize.imagenet(),
        tl.RandomErasing(0.25),
        tl.MixUp(0.2, num_classes=classes),
    ]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = tlt.ImageLoader(sys.argv[1], batch_size=32, ops=ops, last="drop", device=device)
    model = timm.create_model("resnet10t", num_classes=classes).to(device, memory_format=torch.channels_last)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
    schedule = CosineLRScheduler(optimizer, t_initial=EPOCHS * len(loader), t_in_epochs=False)
    criterion = SoftTargetCrossEntropy()
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        loss = torch.zeros(())
        for n, (images, targets) in enumerate(loader):
            loss = criterion(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step_update(epoch * len(loader) + n)
        print(f"epoch {epoch}: loss {loss.item():.3f}, bottleneck: {loader.stats.bottleneck}")


if __name__ == "__main__":
    main()
