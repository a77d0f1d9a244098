"""The JAX adapter gives the loader's batches, or says what to install."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

import trainload as tl
import trainload.jax as tlj
from loading_data import jpegs, write_dts

COMPARE = """
import sys, numpy as np, trainload as tl, trainload.jax as tlj
options = {"batch_size": 4, "ops": [tl.RandomResizedCrop(16)]}
loader = tlj.ImageLoader(sys.argv[1], **options)
kept = list(loader)
for mine, expected in zip(kept, tl.ImageLoader(sys.argv[1], **options), strict=True):
    assert all(np.array_equal(np.asarray(a), b) for a, b in zip(mine, expected, strict=True))
assert len(kept) == len(loader) and loader.state_dict()["epoch"] == 1
"""


def test_without_jax_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(tl.UsageError, match="pip install jax"):
        tlj.ImageLoader(tmp_path, batch_size=4)


@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
def test_batches_are_the_loaders(tmp_path):
    path = write_dts(tmp_path / "set.dts", jpegs(20), [n % 4 for n in range(20)], 7)
    command = [sys.executable, "-c", COMPARE, str(path)]  # JAX's threads would be in the way of tests that fork
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
