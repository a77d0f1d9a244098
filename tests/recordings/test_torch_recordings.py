"""Recordings reach torch: the same tensors for any number of workers and any way to start them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from drive_data import write_drive

torch = pytest.importorskip("torch", reason="torch is not installed")
from trainload.torch import (  # noqa: E402
    AlignedDataset,
    HyperframeLoader,
    SequenceDataset,
    TensorBatch,
    WindowDataset,
    collate,
    collate_aligned,
)

STREAMS = ["lidar/top", "camera", "imu"]


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torch") / "drive.hfr"
    write_drive(path, seconds=2.0)
    return path


def assert_equal(one: TensorBatch, two: TensorBatch) -> None:
    assert torch.equal(one.ids, two.ids)
    for name in one.values:
        assert np.array_equal(np.asarray(one.values[name]).tobytes(), np.asarray(two.values[name]).tobytes())
        assert torch.equal(one.masks[name], two.masks[name])


@pytest.mark.parametrize(
    ("workers", "start"),
    [(2, "fork"), (4, "fork"), pytest.param(2, "spawn", marks=pytest.mark.slow), (2, "forkserver")],
)
def test_dataloader_workers_read_what_the_process_reads(drive: Path, workers: int, start: str) -> None:
    dataset = WindowDataset(drive, streams=STREAMS)
    here = list(torch.utils.data.DataLoader(dataset, batch_size=7, collate_fn=collate))
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=7, collate_fn=collate, num_workers=workers, multiprocessing_context=start
    )
    there = list(loader)
    assert len(here) == len(there) > 1
    for one, two in zip(here, there):
        assert_equal(one, two)


def test_sequences_are_stacked_over_time(drive: Path) -> None:
    dataset = SequenceDataset(drive, duration="500ms", step="100ms", streams=STREAMS, frames_per_stream={"imu": 50})
    batch = next(iter(torch.utils.data.DataLoader(dataset, batch_size=2, collate_fn=collate)))
    assert batch.values["camera"].shape == (2, 5, 24, 32, 3) and batch.values["camera"].dtype == torch.uint8
    assert batch.values["lidar/top"].shape == (2, 5, 300, 4) and batch.values["lidar/top"].dtype == torch.float32
    assert batch.values["imu"].shape == (2, 50, 6)
    assert batch.masks["camera"].all() and batch.times["camera"].shape == (2, 5)


def test_aligned_frames_make_one_tensor_per_stream(drive: Path) -> None:
    pairs = tl.align(tl.open_recording(drive), to="lidar/top", using={"camera": tl.Nearest()}, allow_host=True)
    batch = next(iter(torch.utils.data.DataLoader(AlignedDataset(pairs), batch_size=3, collate_fn=collate_aligned)))
    assert batch.values["lidar/top"].shape == (3, 300, 4)
    assert batch.values["camera"].shape == (3, 24, 32, 3)
    assert batch.residuals["camera"].shape == (3,) and batch.residuals["camera"].dtype == torch.int64
    assert batch.mixed_clocks.tolist() == [True] * 3  # the camera is stamped by the host


def test_the_loader_gives_the_tensors_of_the_dataset(drive: Path) -> None:
    dataset = WindowDataset(drive, streams=STREAMS)
    seen = []
    for batch in HyperframeLoader(dataset, batch_size=4, seed=2):
        assert isinstance(batch, TensorBatch)
        assert_equal(batch, collate([dataset[int(i)] for i in batch.ids]))
        seen += batch.ids.tolist()
    assert sorted(seen) == list(range(len(dataset)))


def test_a_batch_moves_as_one(drive: Path) -> None:
    batch = next(iter(HyperframeLoader(WindowDataset(drive, streams=["lidar/top"]), batch_size=2)))
    moved = batch.to("cpu", copy=True)
    assert moved.values["lidar/top"].data_ptr() != batch.values["lidar/top"].data_ptr()
    assert torch.equal(moved.values["lidar/top"], batch.values["lidar/top"])
