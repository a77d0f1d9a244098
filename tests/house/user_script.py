# pyright: strict
"""A user's script, checked strictly by mypy and pyright and run by nobody: what every call gives, as editors see it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
import torch

import trainload as tl
import trainload.torch as tlt


def train_on_pictures(path: Path) -> None:
    tl.pack_images("imagenet/train", path, level=3)
    ds = tl.open_images(path)
    assert_type(ds, tl.DtsReader | tl.ArrayReader | tl.FolderReader)
    assert_type([sample.label for sample in ds], list[int])
    classes: int = len(ds.class_names)
    ops = [tl.RandomResizedCrop(16), tl.RandomHorizontalFlip(), tl.Normalize.imagenet()]
    loader = tl.ImageLoader(ds, batch_size=8, ops=ops, shuffle="full", last="drop", out="float32")
    assert_type(loader.memory_plan(), tl.MemoryPlan)
    state = loader.state_dict()
    for images, labels in loader:
        print(len(loader), images.shape, labels.tolist(), classes)
    loader.load_state_dict(state)
    with tlt.ImageLoader(path, batch_size=8, ops=[*ops, tl.MixUp(num_classes=classes)], device="cuda") as tensors:
        tensors.sampler.set_epoch(3)
        print(tensors.stats.bottleneck, len(tensors.dataset.class_names), torch.float16)


def learn_from_a_drive(path: Path) -> None:
    with tl.Recorder(path, window="100ms") as recorder:
        camera = recorder.add_stream("camera", kind="camera", encoding="jpeg", rate_hz=30)
        kept: bool = recorder.write(camera, 1_000_000, b"") and recorder.write("imu", 0, np.zeros(3, np.float32))
    drive = tl.open_recording(path)
    assert_type(drive, tl.HyperframeReader)
    assert_type(drive.read("camera", "1.5s"), tl.Frame | None)
    assert_type(drive.window(0), tl.Window)
    fields = {"yaw": "angle"}
    using = {"camera": tl.Nearest(max="20ms"), "imu": tl.Interpolate(fields=fields)}
    pairs = tl.align(drive, to="lidar", using=using)
    assert_type(pairs, tl.Pairs)
    assert_type(pairs[0], tl.Pair)
    assert_type(pairs.report(), tl.Report)
    samples = tl.AlignedDataset(pairs.select(max_residual="10ms"))
    assert_type(samples[0], tl.Clip)
    batch: tl.ClipBatch
    for batch in tl.HyperframeLoader(samples, batch_size=4, seed=1):
        print(kept, batch.values["lidar"], len(batch))


def catch(path: str) -> str | None:
    try:
        tl.verify(path)
    except tl.FormatError as error:
        return f"{error.rule} {error.field} {error.offset}"
    except (tl.SampleError, tl.UsageError) as error:
        assert_type(error, tl.SampleError | tl.UsageError)
    return None
