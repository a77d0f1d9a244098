"""transformers' Trainer takes the loader in place of its DataLoader; it sets the epoch and resumes by skipping batches.

usage: python examples/train_transformers.py train.dts val.dts           (pip install transformers accelerate)
       python examples/train_transformers.py train.dts val.dts --resume  goes on at the last checkpoint
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import transformers

import trainload as tl
import trainload.torch as tlt

NAMES = ("pixel_values", "labels")  # batches are dicts, as the Trainer and the models of transformers want them
TRAIN_OPS = [tl.RandomResizedCrop(64), tl.RandomHorizontalFlip(), tl.Normalize.imagenet()]
VAL_OPS = [tl.Resize(72), tl.CenterCrop(64), tl.Normalize.imagenet()]


class Trainer(transformers.Trainer):
    """The Trainer with our loaders over its two sets, in place of its DataLoaders."""

    def get_train_dataloader(self) -> tlt.ImageLoader:  # type: ignore[override]  # no DataLoader, but taken as one
        size, seed = self.args.per_device_train_batch_size, self.args.data_seed or 0
        return self.loader(self.train_dataset, batch_size=size, ops=TRAIN_OPS, seed=seed, last="drop")

    def get_eval_dataloader(self, eval_dataset: Any = None) -> tlt.ImageLoader:  # type: ignore[override]
        size = self.args.per_device_eval_batch_size
        return self.loader(eval_dataset or self.eval_dataset, batch_size=size, ops=VAL_OPS, shuffle="none")

    def loader(self, ds: Any, **options: Any) -> tlt.ImageLoader:
        return tlt.ImageLoader(ds, device=self.args.device, names=NAMES, **options)


def main() -> None:
    train, val = map(tl.open_images, sys.argv[1:3])
    config = transformers.ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32],
        depths=[1, 1],
        layer_type="basic",
        id2label=dict(enumerate(train.class_names)),
    )
    arguments = transformers.TrainingArguments(
        "checkpoints",
        num_train_epochs=2,
        per_device_train_batch_size=32,
        save_steps=1,
        save_total_limit=2,
        eval_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    model = transformers.ResNetForImageClassification(config)
    trainer = Trainer(model=model, args=arguments, train_dataset=train, eval_dataset=val, compute_metrics=share_right)
    done = trainer.train(resume_from_checkpoint="--resume" in sys.argv)
    print(f"{done.global_step} steps, loss {done.training_loss:.3f}, {trainer.evaluate()['eval_right']:.1%} right")


def share_right(found: transformers.EvalPrediction) -> dict[str, float]:
    guesses = torch.as_tensor(found.predictions).argmax(1)
    return {"right": (guesses == torch.as_tensor(found.label_ids)).float().mean().item()}


if __name__ == "__main__":
    main()
