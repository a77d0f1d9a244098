"""A drive from nothing to training: a simulated rig is recorded, aligned, measured and learned from.

The rig turns to and fro. Camera and lidar see how far it is turned, the IMU feels how fast; the model must tell where
it will be turned to a little later, which takes both, at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.demo.model import SmallModel
from trainload.errors import UsageError
from trainload.recordings.aligning.match import Interpolate, Nearest
from trainload.recordings.aligning.pairs import Pairs, align
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.samples.aligned import AlignedDataset
from trainload.recordings.samples.collate import ClipBatch
from trainload.recordings.samples.hyperframe_loader import HyperframeLoader
from trainload.recordings.writing.recorder import Recorder
from trainload.recordings.writing.simulate import START_NS, make_rig, play, turn

CAMERA, LIDAR, IMU = "camera/0", "lidar/top", "imu"
AHEAD_NS = 200_000_000  # how far ahead the model looks
JITTER, DRIFT_PPM, DROP = "500us", 80.0, 0.01
BATCH_SIZE = 8


@dataclass(frozen=True, slots=True)
class Training:
    """One epoch of learning: mean absolute errors in degrees over the first and the last quarter of its batches.

    still: the error of always saying "where it is turned on average".
    """

    samples: int
    first_error: float
    last_error: float
    still: float


def record_drive(path: Path, *, seconds: float, seed: int = 0) -> None:
    """Record a rig with jitter, losses and drifting clocks, as fast as the machine goes. Replaces `path`."""
    rig = make_rig(cameras=1, jitter=JITTER, drop=DROP, drift_ppm=DRIFT_PPM, codec="lz4")
    with Recorder(path, window="100ms", overwrite=True, meta={"simulated": {"seed": seed}}) as recorder:
        play(recorder, rig, seconds, seed=seed, speed=0)


def align_drive(drive: HyperframeReader) -> Pairs:
    """The camera frame nearest to every lidar sweep, the IMU between its samples."""
    return align(drive, to=LIDAR, using={CAMERA: Nearest(max="20ms"), IMU: Interpolate(max_gap="25ms")})


def train(pairs: Pairs, *, tell: Callable[[str], None]) -> Training:
    """Train a small fusion model for one epoch on aligned frames. Raises UsageError for a drive that is too short."""
    dataset = AlignedDataset(pairs, max_residual="20ms")
    if len(dataset) < 8 * BATCH_SIZE:
        raise UsageError(f"{len(dataset)} aligned sweeps are too few to train on: record at least 10 seconds")
    loader = HyperframeLoader(dataset, batch_size=BATCH_SIZE, seed=0, last="drop", batch_op=_features)
    model = SmallModel(inputs=2 * 16 + 2, hidden=32, seed=0)
    errors, answers = [], []
    for n, (features, wanted) in enumerate(loader):
        tell(f"training, batch {n + 1} of {len(loader)}")
        errors.append(float(np.abs(model.learn(features, wanted)).mean()))
        answers.append(wanted)
    quarter = max(1, len(errors) // 4)
    everything = np.concatenate(answers)
    return Training(
        samples=len(everything),
        first_error=float(np.rad2deg(np.mean(errors[:quarter]))),
        last_error=float(np.rad2deg(np.mean(errors[-quarter:]))),
        still=float(np.rad2deg(np.abs(everything - everything.mean()).mean())),
    )


def _features(batch: ClipBatch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(features [B, 34], where the rig will be turned to, radians [B]); runs on the loader's threads."""
    pictures, clouds, motion = (_array(batch, name) for name in (CAMERA, LIDAR, IMU))
    columns = pictures[:, 40:440:8, :, 2].mean(axis=1).reshape(len(batch), 16, -1).mean(axis=2) / 255
    azimuth = np.arctan2(clouds[..., 1], clouds[..., 0])
    sector = ((azimuth + np.pi) * (16 / (2 * np.pi))).astype(np.int64).clip(0, 15)
    ranges = np.hypot(clouds[..., 0], clouds[..., 1])
    sums = np.stack([np.bincount(s, r, 16) / np.bincount(s, minlength=16) for s, r in zip(sector, ranges)])
    rate, pull = motion[:, 2:3], motion[:, 3:4] * 10
    at = (batch.times[LIDAR] + AHEAD_NS - START_NS) / 1e9
    wanted = np.array([turn(seconds) for seconds in at])
    return np.concatenate([columns, sums / 10, rate, pull], axis=1), wanted


def _array(batch: ClipBatch, stream: str) -> NDArray[Any]:
    values = batch.values[stream]
    assert isinstance(values, np.ndarray)
    return values
