"""transformers' Trainer over our loaders: every epoch once, in its order; a stop in mid-epoch resumes at the sample."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from loading_data import jpegs, write_folder
from trainer_loaders import BATCH, KINDS, epochs, maker

torch = pytest.importorskip("torch")
reason = "transformers and accelerate are not installed: pip install trainload[trainers]"
pytest.importorskip("accelerate", reason=reason)
transformers = pytest.importorskip("transformers", reason=reason)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("pixel_values", "labels", "ids")


class Model(torch.nn.Module):  # type: ignore[name-defined]
    """Learns nothing and notes which samples each step got."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: dict[bool, list[int]] = {True: [], False: []}

    def forward(self, ids: Any, labels: Any = None, **other: Any) -> dict[str, Any]:
        self.seen[self.training] += ids.tolist()
        return {"loss": self.weight * 1.0, "logits": ids.float()}


def named(batch: Any) -> dict[str, Any]:
    return {"ids": batch.ids, "labels": batch.ids}


@pytest.fixture(params=KINDS)
def make(request, tmp_path) -> Any:
    options = {"names": NAMES} if request.param == "pictures" else {"batch_op": named}
    loader_of = maker(request.param, tmp_path)
    return lambda **others: loader_of(**options, **others)


class Trainer(transformers.Trainer):  # type: ignore[name-defined]
    def __init__(self, train: Any, val: Any, **options: Any) -> None:
        super().__init__(**options)
        self.loaders = train, val

    def get_train_dataloader(self) -> Any:
        return self.loaders[0]

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return self.loaders[1]


def trainer_of(folder: Path, train: Any, val: Any = None, **options: Any) -> Any:
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "remove_unused_columns": False}
    arguments = transformers.TrainingArguments(str(folder / "out"), **{**quiet, "num_train_epochs": 3, **options})
    return Trainer(train, val, model=Model(), args=arguments, eval_dataset=val and val.dataset)


def test_every_epoch_comes_once_in_its_order(make, tmp_path):
    trainer = trainer_of(tmp_path, loader := make(), save_strategy="no")
    trainer.train()
    assert trainer.model.seen[True] == epochs(loader, range(3))


def test_a_second_train_reads_the_same_epochs(make, tmp_path):
    """The Trainer counts its epochs itself and tells them to the loader."""
    trainer = trainer_of(tmp_path, loader := make(), save_strategy="no", num_train_epochs=1)
    trainer.train()
    trainer.train()
    assert trainer.model.seen[True] == epochs(loader, [0, 0])


def test_evaluation_in_between_does_no_harm(make, tmp_path):
    loader, val = make(), make(seed=8, shuffle="none")
    evaluation = {"eval_strategy": "steps", "eval_steps": 4, "eval_on_start": True}
    trainer = trainer_of(tmp_path, loader, val, save_strategy="no", num_train_epochs=2, **evaluation)
    trainer.train()
    assert trainer.model.seen[True] == epochs(loader, range(2))
    assert trainer.model.seen[False] == list(range(len(val.dataset))) * 4


@pytest.mark.parametrize(("stop", "accumulated"), [(6, 1), (8, 1), (4, 2)])
def test_a_run_that_stops_goes_on_at_the_sample(make, tmp_path, stop, accumulated):
    """Six batches are an epoch; with two per step, step 4 is in the middle of epoch 1."""
    options = {"gradient_accumulation_steps": accumulated, "save_steps": stop, "save_strategy": "steps"}
    first, loader = trainer_of(tmp_path, make(), **options), make()
    first.train()
    second = trainer_of(tmp_path, loader, **{**options, "save_strategy": "no"})
    second.train(resume_from_checkpoint=str(tmp_path / "out" / f"checkpoint-{stop}"))
    batches = stop * accumulated
    done = batches // 6 * len(loader.dataset) + batches % 6 * BATCH
    assert len(loader) == 6
    assert first.model.seen[True] == epochs(loader, range(3))
    assert second.model.seen[True] == epochs(loader, range(3))[done:]


def test_names_that_do_not_fit_a_batch_are_refused(tmp_path):
    import trainload as tl

    loader = maker("pictures", tmp_path)(names=["pixel_values"])
    with pytest.raises(tl.UsageError, match="3 parts"):
        next(iter(loader))


@pytest.mark.slow
def test_the_example_trains_and_resumes(tmp_path, monkeypatch, capsys):
    folder = str(write_folder(tmp_path / "train", jpegs(64), sorted(n % 3 for n in range(64))))
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--resume"]):
        monkeypatch.setattr(sys, "argv", ["train_transformers.py", folder, folder, *more])
        runpy.run_path(str(EXAMPLES / "train_transformers.py"), run_name="__main__")
        assert "4 steps" in capsys.readouterr().out.splitlines()[-1]
