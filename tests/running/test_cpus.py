"""Threads of a loader run on the CPUs that they are given, by number or by NUMA node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from loading_data import jpegs, write_dts
from trainload.machine.numa import cpu_sets, numa_nodes
from trainload.running.run import Run

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no threads to CPUs")

USABLE = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
OPS = [tl.RandomResizedCrop(16)]


def write_nodes(folder: Path, *lists: str) -> Path:
    for number, text in enumerate(lists):
        (folder / f"node{number}").mkdir(parents=True)
        (folder / f"node{number}" / "cpulist").write_text(text + "\n")
    (folder / "power").mkdir()
    (folder / "nodes_with_cpus").write_text("0\n")
    return folder


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The CPUs of every thread that a run of these loaders has, once it is at work."""
    found: list[tuple[int, ...]] = []

    def noting(loop: Callable[[Run, int], None]) -> Callable[[Run, int], None]:
        def noted(self: Run, n: int) -> None:
            found.append(tuple(sorted(os.sched_getaffinity(0))))
            loop(self, n)

        return noted

    for name in ("_decode_loop", "_io_loop"):
        monkeypatch.setattr(Run, name, noting(getattr(Run, name)))
    return found


def test_nodes_are_read_as_linux_writes_them(tmp_path: Path) -> None:
    nodes = write_nodes(tmp_path / "nodes", "0-3,8", "4-7,9-10", "")
    assert numa_nodes(nodes) == [{0, 1, 2, 3, 8}, {4, 5, 6, 7, 9, 10}, set()]
    assert numa_nodes(tmp_path / "none") == []
    (nodes / "node1" / "cpulist").write_text("four\n")
    assert numa_nodes(nodes) == []


def test_the_tenth_node_comes_after_the_second(tmp_path: Path) -> None:
    assert numa_nodes(write_nodes(tmp_path / "nodes", *map(str, range(11)))) == [{n} for n in range(11)]


def test_one_node_binds_nothing_and_cpus_that_are_not_ours_do_not_count(tmp_path: Path) -> None:
    first, *others = USABLE
    assert cpu_sets("numa", nodes=write_nodes(tmp_path / "one", ",".join(map(str, USABLE)))) == ()
    assert cpu_sets("numa", nodes=tmp_path / "none") == ()
    beyond = max(USABLE) + 1
    assert cpu_sets("numa", nodes=write_nodes(tmp_path / "far", ",".join(map(str, USABLE)), str(beyond))) == ()
    if others:
        nodes = write_nodes(tmp_path / "two", f"{first},{beyond}", ",".join(map(str, others)))
        assert cpu_sets("numa", nodes=nodes) == (frozenset([first]), frozenset(others))


@pytest.mark.parametrize("asked", [[100_000], [-1], [], "all", [0.5]])
def test_cpus_that_cannot_be_are_refused_and_those_that_can_are_named(asked: Any) -> None:
    with pytest.raises(tl.UsageError, match="cpus"):
        cpu_sets(asked)
    with pytest.raises(tl.UsageError, match=f"this process may use {USABLE[0]}"):
        cpu_sets([100_000])


@pytest.mark.parametrize("mode", ["fully", "partial"])
def test_every_thread_of_a_loader_runs_where_it_is_told_and_ours_does_not_move(
    mode: Any, tmp_path: Path, bound: list[tuple[int, ...]]
) -> None:
    path = write_dts(tmp_path / "set.dts", jpegs(20), [0] * 20, 5)
    one = USABLE[-1]
    options: dict[str, Any] = {"batch_size": 4, "ops": OPS, "workers": 2, "mode": mode}
    with tl.ImageLoader(path, **options, tuning=tl.Tuning(cpus=[one])) as loader:
        found = [images.copy() for images, _ in loader]
    assert set(bound) == {(one,)} and len(bound) >= 3
    assert sorted(os.sched_getaffinity(0)) == USABLE
    with tl.ImageLoader(path, **options) as free:
        assert all(np.array_equal(a, b) for a, (b, _) in zip(found, free, strict=True))
    assert bound[-1] == tuple(USABLE)


@pytest.mark.skipif(len(USABLE) < 2, reason="one CPU makes no two nodes")
def test_threads_take_the_nodes_in_turn(
    tmp_path: Path, bound: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = write_nodes(tmp_path / "nodes", str(USABLE[0]), ",".join(map(str, USABLE[1:])))
    monkeypatch.setattr("trainload.images.loading.image_loader.cpu_sets", lambda asked: cpu_sets(asked, nodes=nodes))
    path = write_dts(tmp_path / "set.dts", jpegs(20), [0] * 20, 5)
    tuning = tl.Tuning(io_workers=2, cpus="numa")
    with tl.ImageLoader(path, batch_size=4, ops=OPS, workers=4, tuning=tuning) as loader:
        assert sum(len(labels) for _, labels in loader) == 20
    assert sorted(bound) == sorted([(USABLE[0],), tuple(USABLE[1:])] * 3)


def test_clips_are_read_where_it_is_told(tmp_path: Path, bound: list[tuple[int, ...]]) -> None:
    with tl.Recorder(tmp_path / "a.hfr", window="100ms") as recorder:
        imu = recorder.add_stream("imu", kind="imu", dtype="<f4", shape=(3,), rate_hz=100, clock="hardware")
        for n in range(100):
            recorder.write(imu, n * 10_000_000, np.zeros(3, np.float32))
    dataset = tl.WindowDataset([tmp_path / "a.hfr"])
    for _ in tl.HyperframeLoader(dataset, batch_size=2, workers=2, cpus=[USABLE[0]]):
        pass
    assert set(bound) == {(USABLE[0],)}
    with pytest.raises(tl.UsageError, match="cpus"):
        tl.HyperframeLoader(dataset, batch_size=2, cpus=[100_000])
