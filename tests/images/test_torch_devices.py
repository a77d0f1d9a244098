"""One loader for several devices gives each of them the batches that a rank of its own would have."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from loading_data import jpegs, write_dts

torch = pytest.importorskip("torch")

import trainload.torch as tlt  # noqa: E402 (needs torch)

OPS = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip(), tl.MixUp(num_classes=4)]
Step = list[list[bytes]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("devices") / "set.dts"
    return write_dts(where, jpegs(44), [n % 4 for n in range(44)], 10)


def loader_of(path: Path, **options: Any) -> Any:
    return tlt.ImageLoader(path, **{"batch_size": 4, "ops": OPS, "with_ids": True, "workers": 2, **options})


def as_bytes(batch: Any) -> list[bytes]:
    return [part.contiguous().numpy().tobytes() for part in batch]


def steps_of(loader: Any) -> list[Step]:
    return [[as_bytes(batch) for batch in step] for step in loader]


def steps_of_ranks(path: Path, devices: int, rank: int = 0, world_size: int = 1, **options: Any) -> list[Step]:
    """The same by a loader for each device, as a rank of its own."""
    ranks = [
        [as_bytes(batch) for batch in loader_of(path, rank=n, world_size=world_size * devices, **options)]
        for n in range(rank * devices, (rank + 1) * devices)
    ]
    return [list(step) for step in zip(*ranks, strict=True)]


@pytest.mark.parametrize("last", ["short", "drop", "pad"])
@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_each_device_has_the_batches_of_a_rank_of_its_own(path: Path, devices: int, last: str) -> None:
    loader = loader_of(path, devices=["cpu"] * devices, last=last)
    found = steps_of(loader)
    assert len(loader) == len(found)
    assert found == steps_of_ranks(path, devices, last=last)


@pytest.mark.parametrize("mode", ["fully", "partial"])
@pytest.mark.parametrize("rank", [0, 1])
def test_processes_with_several_devices_share_an_epoch(path: Path, mode: str, rank: int) -> None:
    loader = loader_of(path, devices=["cpu"] * 2, rank=rank, world_size=2, mode=mode)
    assert steps_of(loader) == steps_of_ranks(path, 2, rank, 2, mode=mode)


def test_a_tail_of_fewer_samples_than_devices_leaves_the_last_ones_without(path: Path) -> None:
    loader = loader_of(path, devices=["cpu"] * 4, indices=range(18))
    sizes = [[len(labels) for _, labels, _ in step] for step in loader]
    assert sizes == [[4] * 4, [1, 1, 0, 0]]


def test_a_state_counts_whole_steps_and_goes_on_with_other_devices(path: Path) -> None:
    loader = loader_of(path, devices=["cpu"] * 2)
    whole = steps_of(loader_of(path, devices=["cpu"] * 2))
    batches = iter(loader)
    first = [[as_bytes(batch) for batch in next(batches)] for _ in range(2)]
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["position"] == 16 and first == whole[:2]
    again = loader_of(path, devices=["cpu"] * 2)
    again.load_state_dict(state)
    assert steps_of(again) == whole[2:] == steps_of(pickle.loads(pickle.dumps(loader)))
    alone = loader_of(path)
    alone.load_state_dict(state)
    ids = [int(i) for _, _, ids in alone for i in ids]
    assert ids == loader.epoch_ids(0)[16:].tolist()


def test_skipped_steps_are_not_read(path: Path) -> None:
    loader = loader_of(path, devices=["cpu"] * 2)
    loader.skip_batches(3)
    assert steps_of(loader) == steps_of(loader_of(path, devices=["cpu"] * 2))[3:]


def test_names_and_the_devices_normalize_hold_for_each_device(path: Path) -> None:
    ops = [tl.RandomResizedCrop(16), tl.Normalize.imagenet()]
    options = {"ops": ops, "with_ids": False, "normalize_on_device": True, "names": ("pixel_values", "labels")}
    for step in loader_of(path, devices=["cpu", "cpu"], **options):
        for batch in step:
            assert list(batch) == ["pixel_values", "labels"] and batch["pixel_values"].dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": []}, "give one or more"),
        ({"devices": ["cpu", "cuda:0"]}, "all GPUs or all the CPU"),
        ({"devices": ["cuda:0"], "device": "cuda:0"}, "not both"),
        ({"devices": ["cpu"] * 12, "last": "drop"}, "a batch of 4 with 12 devices"),
    ],
)
def test_devices_that_cannot_be_are_refused(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tl.UsageError, match=message):
        loader_of(path, **options)


def test_breaking_off_between_steps_ends_the_threads(path: Path) -> None:
    import threading

    loader = loader_of(path, devices=["cpu"] * 2)
    for step in loader:
        assert len(step) == 2
        break
    del step
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("trainload-")]
    assert np.array_equal(loader.epoch_ids(0), tl.ImageLoader(path, batch_size=4, ops=OPS[:1]).epoch_ids(0))
