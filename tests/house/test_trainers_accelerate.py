"""Accelerate over our loaders: prepare leaves them alone, checkpoints and skip_first_batches go on at the sample."""

from __future__ import annotations

import runpy
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from loading_data import jpegs, write_folder
from trainer_loaders import BATCH, KINDS, epochs, ids_of, maker, read

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed: pip install trainload[trainers]")
import trainload as tl  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(params=KINDS)
def make(request, tmp_path) -> Any:
    return maker(request.param, tmp_path)


@pytest.fixture
def accelerator() -> Any:
    return accelerate.Accelerator(cpu=True)


def test_prepare_gives_the_loader_back_and_uses_up_no_epoch(make, accelerator):
    loader = make()
    model = torch.nn.Linear(2, 2)
    prepared, *_ = accelerator.prepare(loader, model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert prepared is loader
    assert loader.state_dict()["epoch"] == 0
    assert read(loader) + read(loader) == epochs(loader, range(2))


@pytest.mark.parametrize("stop", [4, 6, 8])
def test_a_saved_state_goes_on_at_the_sample(make, accelerator, tmp_path, stop):
    def run(loader: Any, last_step: int) -> list[int]:
        seen: list[int] = []
        steps = 0
        while loader.epoch < 3:
            for batch in loader:
                seen += ids_of(batch)
                steps += 1
                if steps == last_step:
                    accelerator.save_state(str(tmp_path / "saved"))
                    return seen
        return seen

    first, second = make(), make()
    accelerator.register_for_checkpointing(first)
    seen = run(first, stop)
    accelerator._custom_objects.clear()
    accelerator.register_for_checkpointing(second)
    accelerator.load_state(str(tmp_path / "saved"))
    assert seen + run(second, -1) == epochs(second, range(3))


@pytest.mark.parametrize("skipped", [0, 1, 4, 6])
def test_skip_first_batches_gives_the_rest_of_the_epoch(make, accelerator, skipped):
    loader = make()
    loader.set_epoch(1)
    rest = accelerator.skip_first_batches(loader, skipped)
    assert len(rest) == len(loader) - skipped == 6 - skipped
    assert read(rest) == loader.epoch_ids(1)[skipped * BATCH :].tolist()
    if skipped == 6:
        assert loader.epoch == 1  # nothing was handed out
        loader.set_epoch(2)
    assert read(loader) == loader.epoch_ids(2).tolist()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("trainload")]


def test_batches_after_a_skip_are_the_loaders_own(make, accelerator):
    whole = list(make())
    rest = list(accelerate.skip_first_batches(make(), 2))
    for one, other in zip(whole[2:], rest, strict=True):
        assert type(one) is type(other)
        if isinstance(one, tuple):
            assert all(torch.equal(a, b) for a, b in zip(one, other))
        else:
            assert torch.equal(one.values["odometry"], other.values["odometry"])


def test_a_skip_after_a_loaded_state_does_not_skip_twice(make, accelerator):
    loader, other = make(), make()
    batches = iter(loader)
    next(batches), next(batches)
    other.load_state_dict(loader.state_dict())
    assert read(accelerator.skip_first_batches(other, 2)) == read(batches)


def test_the_state_in_the_middle_after_a_skip_is_exact(make, accelerator):
    loader, other = make(), make()
    rest = iter(accelerator.skip_first_batches(loader, 2))
    next(rest)
    other.load_state_dict(loader.state_dict())
    assert read(other) == read(rest) == loader.epoch_ids(0)[3 * BATCH :].tolist()


def test_leaving_a_skipped_epoch_ends_its_threads(make, accelerator):
    rest = accelerator.skip_first_batches(make(), 1)
    for _ in rest:
        break
    del rest
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("trainload")]


def test_batches_that_are_cut_a_second_time_are_refused(make, accelerator):
    from accelerate.data_loader import BatchSamplerShard

    loader = make()
    shard = BatchSamplerShard(loader.batch_sampler, num_processes=2, process_index=0)
    again = torch.utils.data.DataLoader(loader.dataset, batch_sampler=shard, collate_fn=loader.collate_fn)
    with pytest.raises(tl.UsageError, match="its own share already"):
        list(again)
    with pytest.raises(tl.UsageError, match="batch_sampler"):
        next(iter(torch.utils.data.DataLoader(loader.dataset, batch_size=1, collate_fn=loader.collate_fn)))


def test_the_example_trains(tmp_path, monkeypatch, capsys):
    train = write_folder(tmp_path / "train", jpegs(64), sorted(n % 3 for n in range(64)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_accelerate.py", str(train)])
    runpy.run_path(str(EXAMPLES / "train_accelerate.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("epoch")] == ["epoch 0", "epoch 1"]
