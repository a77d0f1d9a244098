"""The JAX adapter gives the loader's batches, or says what to install."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import trainload as tl
import trainload.jax as tlj
from loading_data import jpegs, write_dts

OPS = [tl.RandomResizedCrop(16)]


def test_without_jax_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(tl.UsageError, match="pip install jax"):
        tlj.ImageLoader(tmp_path, batch_size=4)


def test_batches_are_the_loaders(tmp_path):
    pytest.importorskip("jax")
    path = write_dts(tmp_path / "set.dts", jpegs(20), [n % 4 for n in range(20)], 7)
    loader = tlj.ImageLoader(path, batch_size=4, ops=OPS)
    kept = list(loader)
    for mine, expected in zip(kept, tl.ImageLoader(path, batch_size=4, ops=OPS), strict=True):
        assert all(np.array_equal(np.asarray(a), b) for a, b in zip(mine, expected))
    assert loader.state_dict()["epoch"] == 1
