"""Accelerate prepares the model; the loader finds rank and world size itself and puts batches on the device.

usage: accelerate launch examples/train_accelerate.py train.dts           (pip install accelerate)
"""

from __future__ import annotations

import sys

import torch
from accelerate import Accelerator

import trainload as tl
import trainload.torch as tlt


def main() -> None:
    accelerator = Accelerator()
    ops = [tl.RandomResizedCrop(64), tl.RandomHorizontalFlip(), tl.Normalize.imagenet()]
    loader = tlt.ImageLoader(sys.argv[1], batch_size=32, ops=ops, last="drop", device=accelerator.device)
    model: torch.nn.Module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, len(loader.dataset.class_names)),
    )
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    accelerator.register_for_checkpointing(loader)  # save_state and load_state keep the loader's place
    for epoch in range(2):
        loss = torch.zeros(())
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}, {loader.stats.samples_per_second:,.0f} pictures/s")


if __name__ == "__main__":
    main()
