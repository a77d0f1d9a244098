"""Ranks are those of the process group when a pass begins; a process of several without one reads nothing."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trainload as tl
from child_processes import running
from drive_data import write_drive
from loading_data import jpegs, write_dts

COUNT = 24


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("ranks")
    drive = write_drive(folder / "0.hfr", seconds=3.0).path
    return write_dts(folder / "set.dts", jpegs(COUNT), [0] * COUNT, 10), drive


@pytest.fixture(params=["pictures", "recordings"])
def make(request, paths) -> Any:
    def loader_of(**options: Any) -> Any:
        options = {"batch_size": 2, "workers": 1, **options}
        if request.param == "recordings":
            return tl.HyperframeLoader(tl.WindowDataset([paths[1]], streams=["odometry"]), **options)
        return tl.ImageLoader(paths[0], ops=[tl.Resize((8, 8))], with_ids=True, **options)

    return loader_of


class Group:
    """torch.distributed, as far as a loader looks at it."""

    def __init__(self) -> None:
        self.place: tuple[int, int] | None = None

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.place is not None

    def get_rank(self) -> int:
        assert self.place is not None
        return self.place[0]

    def get_world_size(self) -> int:
        assert self.place is not None
        return self.place[1]


@pytest.fixture
def group(monkeypatch) -> Group:
    found = Group()
    monkeypatch.setitem(sys.modules, "torch.distributed", found)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return found


def read(batches: Any) -> list[int]:
    return [int(i) for batch in batches for i in (batch[2] if isinstance(batch, tuple) else batch.ids)]


def share(loader: Any, epoch: int, rank: int, world_size: int) -> list[int]:
    """What the law gives to a rank of an epoch that ranks divide without a rest."""
    order = loader.epoch_ids(epoch).tolist()
    return [i for n, i in enumerate(order) if n // 2 % world_size == rank]


@pytest.fixture
def launched(group, monkeypatch) -> Group:
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "1")
    return group


def test_a_process_group_that_comes_later_counts(make, group):
    loader = make()
    assert (loader.rank, loader.world_size) == (0, 1)
    whole = len(loader)
    assert read(loader) == loader.epoch_ids(0).tolist()
    iterator = iter(loader)  # its threads are at work on the whole
    group.place = (1, 3)
    assert (loader.rank, loader.world_size, len(loader)) == (1, 3, -(-whole // 3))
    assert read(iterator)[: len(loader)] == share(loader, 1, 1, 3)[: len(loader)]
    group.place = None  # it has gone again
    assert (loader.rank, loader.world_size) == (1, 3)


def test_a_launched_process_without_a_group_reads_nothing(make, launched):
    loader = make()
    with pytest.raises(tl.UsageError, match=r"WORLD_SIZE is 3.*init_process_group.*rank=0, world_size=1"):
        iter(loader)
    with pytest.raises(tl.UsageError, match="WORLD_SIZE"):
        _ = loader.rank
    launched.place = (2, 3)
    assert read(loader)[:4] == share(loader, 0, 2, 3)[:4]


def test_length_state_and_repr_are_there_before_the_group(make, launched):
    loader = make()
    before, state = len(loader), loader.state_dict()
    assert "rank=not known yet, of 3" in repr(loader)
    launched.place = (2, 3)
    assert (len(loader), loader.state_dict()) == (before, state)
    assert "rank=2 of 3" in repr(loader)


def test_a_given_rank_wins(make, launched):
    loader = make(rank=0, world_size=1)
    assert read(loader) == loader.epoch_ids(0).tolist()
    launched.place = (1, 3)
    assert (loader.rank, loader.world_size) == (0, 1)
    assert read(loader) == loader.epoch_ids(1).tolist()
    assert (make(rank=4, world_size=6).rank, make(rank=4, world_size=6).world_size) == (4, 6)


def test_a_pickled_loader_keeps_its_rank_where_there_is_no_group(make, launched):
    launched.place = (1, 3)
    loader = make()
    assert loader.rank == 1
    data = pickle.dumps(loader)
    launched.place = None  # as in the worker process of a DataLoader
    assert read(pickle.loads(data))[:4] == share(loader, 0, 1, 3)[:4]
    with pytest.raises(tl.UsageError, match="WORLD_SIZE"):
        iter(pickle.loads(pickle.dumps(make())))


def test_drop_counts_the_ranks_that_the_launcher_names(make, launched):
    total = len(make().epoch_ids(0))
    with pytest.raises(tl.UsageError, match="3 ranks"):
        make(last="drop", batch_size=total // 3 + 1)


@pytest.mark.parametrize("text", ["", "two", "-1", "0", "1"])
def test_a_world_size_that_names_no_others_changes_nothing(make, group, monkeypatch, text):
    monkeypatch.setenv("WORLD_SIZE", text)
    assert make().world_size == 1


LATE = """
import json, os, sys
import torch.distributed as dist
import trainload as tl, trainload.torch as tlt
rank, port, dts, hfr = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
pictures = tlt.ImageLoader(dts, batch_size=3, ops=[tl.Resize((8, 8))], with_ids=True, workers=1)
drives = tlt.HyperframeLoader(tlt.WindowDataset([hfr], streams=["odometry"]), batch_size=3, workers=1)
dist.init_process_group("gloo")
found = [[ids.tolist() for _, _, ids in pictures], [batch.ids.tolist() for batch in drives]]
print(json.dumps(found), flush=True)
dist.destroy_process_group()
os._exit(0)
"""


def test_loaders_made_before_the_group_share_the_epoch(paths):
    pytest.importorskip("torch")
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    pipes = {"stdout": subprocess.PIPE}
    with running(LATE, 0, port, *paths, **pipes) as one, running(LATE, 1, port, *paths, **pipes) as two:
        found = [json.loads(process.communicate(timeout=120)[0].splitlines()[-1]) for process in (one, two)]
    dataset = tl.WindowDataset([paths[1]], streams=["odometry"])
    orders = (
        tl.ImageLoader(paths[0], batch_size=3, ops=[tl.Resize((8, 8))]).epoch_ids(0).tolist(),
        tl.HyperframeLoader(dataset, batch_size=3).epoch_ids(0).tolist(),
    )
    for kind, order in enumerate(orders):
        steps = zip(found[0][kind], found[1][kind], strict=True)
        assert [i for step in steps for batch in step for i in batch] == order
