"""Lightning takes the loader as it takes a DataLoader: it sets the epoch, and its checkpoints hold the loader's state.

usage: python examples/train_lightning.py train.dts val.dts           (pip install pytorch-lightning)
"""

from __future__ import annotations

import sys

import pytorch_lightning as pl
import torch

import trainload as tl
import trainload.torch as tlt


class Classifier(pl.LightningModule):
    """Two convolutions and a linear layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(16, classes),
        )

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.net(images), labels)

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        images, labels = batch
        self.log("right", (self.net(images).argmax(1) == labels).float().mean(), batch_size=len(labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Pictures(pl.LightningDataModule):
    """The loaders. They find rank and world size when they are iterated; Lightning leaves them as they are."""

    def __init__(self, train: str, val: str) -> None:
        super().__init__()
        self.paths = train, val

    def train_dataloader(self) -> tlt.ImageLoader:
        ops = [tl.RandomResizedCrop(64), tl.RandomHorizontalFlip(), tl.Normalize.imagenet()]
        return tlt.ImageLoader(self.paths[0], batch_size=32, ops=ops, last="drop")

    def val_dataloader(self) -> tlt.ImageLoader:
        ops = [tl.Resize(72), tl.CenterCrop(64), tl.Normalize.imagenet()]
        return tlt.ImageLoader(self.paths[1], batch_size=32, ops=ops, shuffle="none")


def main() -> None:
    train, val = sys.argv[1:3]
    with tl.open_images(train) as ds:
        model = Classifier(len(ds.class_names))
    trainer = pl.Trainer(max_epochs=2, logger=False, enable_checkpointing=False)
    trainer.fit(model, datamodule=Pictures(train, val))
    print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
