"""Lightning's Trainer over our loaders: every epoch once, in its order; a stop in mid-epoch resumes at the sample."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from loading_data import jpegs, write_folder
from trainer_loaders import BATCH, KINDS, epochs, ids_of, maker

torch = pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    reason = "pytorch-lightning is not installed: pip install trainload[trainers]"
    pl = pytest.importorskip("pytorch_lightning", reason=reason)

pytestmark = pytest.mark.filterwarnings("ignore")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


class Witness(pl.LightningModule):  # type: ignore[name-defined]
    """Learns nothing and notes which samples each step got."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.trained: list[int] = []
        self.validated: list[list[int]] = []
        self.fail_at = fail_at

    def training_step(self, batch: Any, index: int) -> Any:
        if self.global_step == self.fail_at:
            raise RuntimeError("the machine stops")
        self.trained += ids_of(batch)
        return self.weight * 1.0

    def on_validation_start(self) -> None:
        self.validated.append([])

    def validation_step(self, batch: Any, index: int) -> None:
        self.validated[-1] += ids_of(batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture(params=KINDS)
def make(request, tmp_path) -> Any:
    return maker(request.param, tmp_path)


def trainer_of(folder: Path, **options: Any) -> Any:
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return pl.Trainer(**{**quiet, "default_root_dir": folder, "enable_checkpointing": False, **options})


def checkpoints(folder: Path, steps: int) -> Any:
    return pl.callbacks.ModelCheckpoint(
        folder, filename="{step}", every_n_train_steps=steps, save_top_k=-1, save_on_train_epoch_end=False
    )


def test_every_epoch_comes_once_in_its_order(make, tmp_path):
    loader, model = make(), Witness()
    trainer_of(tmp_path, max_epochs=3).fit(model, loader)
    assert model.trained == epochs(loader, range(3))
    assert loader.epoch_ids(0).tolist() != loader.epoch_ids(1).tolist()


def test_epochs_that_are_cut_short_are_distinct(make, tmp_path):
    loader, model = make(), Witness()
    trainer_of(tmp_path, max_epochs=3, limit_train_batches=2).fit(model, loader)
    assert model.trained == [int(i) for epoch in range(3) for i in loader.epoch_ids(epoch)[: 2 * BATCH]]


def test_validation_and_its_sanity_check_do_no_harm(make, tmp_path):
    loader, val, model = make(), make(seed=8), Witness()
    trainer_of(tmp_path, max_epochs=2, num_sanity_val_steps=2, val_check_interval=0.5).fit(model, loader, val)
    assert model.trained == epochs(loader, range(2))
    sanity, *found = model.validated
    assert sanity == val.epoch_ids(0)[: 2 * BATCH].tolist()
    assert found == [val.epoch_ids(epoch).tolist() for epoch in (0, 0, 1, 1)]


@pytest.mark.parametrize("stop", [1, 4, 6, 8, 12])
def test_a_run_that_stops_goes_on_at_the_sample(make, tmp_path, stop):
    """Six batches are an epoch: 4 and 8 are in the middle of one, 6 and 12 at the end."""
    model = Witness()
    trainer = trainer_of(tmp_path, max_epochs=3, enable_checkpointing=True, callbacks=[checkpoints(tmp_path, stop)])
    trainer.fit(model, make())
    loader, resumed = make(seed=77), Witness()
    loader.load_state_dict(make().state_dict())  # the seed
    trainer_of(tmp_path, max_epochs=3).fit(resumed, loader, ckpt_path=tmp_path / f"step={stop}.ckpt")
    assert len(loader) == 6
    whole = epochs(loader, range(3))
    done = stop // 6 * len(loader.dataset) + stop % 6 * BATCH
    assert model.trained == whole
    assert resumed.trained == whole[done:]


def test_a_run_whose_step_fails_goes_on_at_the_sample_after_its_checkpoint(make, tmp_path):
    stopped, loader, resumed = Witness(fail_at=9), make(), Witness()
    saving = checkpoints(tmp_path, 4)
    with pytest.raises(RuntimeError, match="the machine stops"):
        trainer_of(tmp_path, max_epochs=3, enable_checkpointing=True, callbacks=[saving]).fit(stopped, make())
    trainer_of(tmp_path, max_epochs=3).fit(resumed, loader, ckpt_path=tmp_path / "step=8.ckpt")
    done = len(loader.dataset) + 2 * BATCH
    assert stopped.trained[:done] + resumed.trained == epochs(loader, range(3))


def test_a_checkpoint_between_epochs_goes_on_with_the_next(make, tmp_path):
    saving = pl.callbacks.ModelCheckpoint(tmp_path, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
    model = Witness()
    trainer_of(tmp_path, max_epochs=2, enable_checkpointing=True, callbacks=[saving]).fit(model, make())
    loader, resumed = make(), Witness()
    trainer_of(tmp_path, max_epochs=4).fit(resumed, loader, ckpt_path=tmp_path / "epoch=1.ckpt")
    assert model.trained + resumed.trained == epochs(loader, range(4))


def test_a_run_counted_in_steps_goes_on_at_the_sample(make, tmp_path):
    first, loader, second = Witness(), make(), Witness()
    saving = checkpoints(tmp_path, 8)
    trainer_of(tmp_path, max_steps=8, enable_checkpointing=True, callbacks=[saving]).fit(first, make())
    trainer_of(tmp_path, max_steps=18).fit(second, loader, ckpt_path=tmp_path / "step=8.ckpt")
    assert first.trained + second.trained == epochs(loader, range(3))


class Endless:
    """An iterable without a length."""

    def __iter__(self) -> Any:
        while True:
            yield torch.zeros(1)


def test_beside_an_iterable_without_length_the_state_is_one_batch_ahead(make, tmp_path):
    """Lightning asks one batch ahead then (docs/loading.md): late, but of the right epoch and never at 0."""
    loader, positions = make(), []

    class Pair(Witness):
        def training_step(self, batch: Any, index: int) -> Any:
            positions.append(loader.state_dict()["position"])
            return super().training_step(batch["ours"], index)

    model = Pair()
    trainer_of(tmp_path, max_steps=3).fit(model, {"ours": loader, "theirs": Endless()})
    assert model.trained == loader.epoch_ids(0)[: 3 * BATCH].tolist()
    assert positions == [2 * BATCH, 3 * BATCH, 4 * BATCH]


def test_the_example_trains(tmp_path, monkeypatch, capsys):
    train = write_folder(tmp_path / "train", jpegs(64), sorted(n % 3 for n in range(64)))
    val = write_folder(tmp_path / "val", jpegs(9), sorted(n % 3 for n in range(9)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_lightning.py", str(train), str(val)])
    runpy.run_path(str(EXAMPLES / "train_lightning.py"), run_name="__main__")
    assert "'right'" in capsys.readouterr().out
