"""The plain torch example trains, saves its place and goes on from there."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from loading_data import jpegs, write_folder

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/train_torch.py"


def test_it_trains_and_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    folder = write_folder(tmp_path / "pictures", jpegs(24), sorted(n % 3 for n in range(24)))
    checkpoint = tmp_path / "checkpoint.pt"
    for epochs, shown in ((1, ["epoch 0"]), (3, ["epoch 1", "epoch 2"])):
        arguments = [str(EXAMPLE), str(folder), str(folder), "--batch-size", "8", "--checkpoint", str(checkpoint)]
        monkeypatch.setattr(sys, "argv", [*arguments, "--epochs", str(epochs)])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(":")[0] for line in lines] == shown
    assert torch.load(checkpoint)["loader"]["epoch"] == 3
