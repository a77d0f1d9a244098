"""A training loop in plain torch, on one device or under torchrun, that goes on exactly where it was stopped.

usage: python examples/train_torch.py train.dts val.dts
       torchrun --nproc-per-node=2 examples/train_torch.py train.dts val.dts
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist

import trainload as tl
import trainload.torch as tlt

TRAIN_OPS = [tl.RandomResizedCrop(64), tl.RandomHorizontalFlip(), tl.Normalize.imagenet()]
VAL_OPS = [tl.Resize(72), tl.CenterCrop(64), tl.Normalize.imagenet()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", help="a .dts file or a folder of class folders")
    parser.add_argument("val")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    args = parser.parse_args()
    distributed = "RANK" in os.environ
    if distributed:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu")

    tuning = tl.Tuning(buffers=tl.BufferPair())  # validation uses the memory of training where the set does not fit
    train = tlt.ImageLoader(
        args.train, batch_size=args.batch_size, ops=TRAIN_OPS, device=device, last="drop", tuning=tuning
    )
    val = tlt.ImageLoader(
        args.val, batch_size=args.batch_size, ops=VAL_OPS, device=device, shuffle="none", tuning=tuning
    )
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, len(train.dataset.class_names)),
    )
    model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # which torch's types leave out
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if args.checkpoint.exists():
        saved = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        train.load_state_dict(saved["loader"])  # to the sample, also with another number of ranks
    trained = torch.nn.parallel.DistributedDataParallel(model) if distributed else model

    while (epoch := train.state_dict()["epoch"]) < args.epochs:
        loss = torch.zeros((), device=device)
        for images, labels in train:
            loss = torch.nn.functional.cross_entropy(trained(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = evaluate(model, val)
        if not distributed or dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "loader": train.state_dict()}
            torch.save(state, args.checkpoint)
            speed = f"{train.stats.samples_per_second:,.0f} pictures/s, bottleneck: {train.stats.bottleneck}"
            print(f"epoch {epoch}: loss {loss.item():.3f}, {right:.1%} right, {speed}")
    if distributed:
        dist.destroy_process_group()


@torch.no_grad()
def evaluate(model: torch.nn.Module, val: tlt.ImageLoader) -> float:
    """The share of pictures that the model gets right; every rank looks at its own part, each picture once."""
    counts = torch.zeros(2)
    for images, labels in val:
        if len(labels):
            counts += torch.tensor([(model(images).argmax(1) == labels).sum().item(), len(labels)])
    if dist.is_initialized():
        device = next(model.parameters()).device
        counts = counts.to(device)
        dist.all_reduce(counts)
    return float(counts[0] / counts[1])


if __name__ == "__main__":
    main()
