"""A recording as a Rerun file (.rrd): pictures, point clouds and numbers on a time line (package `rerun-sdk`).

Two time lines: `acquired`, the frames' own times, and `received` where the recording has receive times.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.progress import Progress
from trainload.recordings.exporters.numbers import FrameNumbers
from trainload.recordings.format.envelopes import ENVELOPE_STREAM, RECORD_STREAM
from trainload.recordings.format.streams import TIME_FIELD
from trainload.recordings.reading.frame import Frame
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.storage.atomic import AtomicFile
from trainload.storage.target import check_target

_MEDIA = {"jpeg": "image/jpeg", "jpg": "image/jpeg", "png": "image/png"}
_COLOUR = {"rgb8": "RGB", "bgr8": "BGR", "rgba8": "RGBA", "bgra8": "BGRA", "mono8": "L"}
_DEPTH = ("16UC1", "32FC1")
_XYZ = ("x", "y", "z")


@dataclass(slots=True)
class RerunReport:
    """frames: drawn, by stream. left_out: streams that Rerun has no picture for, with the reason."""

    path: str
    frames: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def export_rerun(
    recording: HyperframeReader,
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RerunReport:
    """Write what Rerun can show of `recording` to the file `out`. progress: gets frames.

    Raises UsageError without rerun-sdk and where `out` exists.
    """
    try:
        rerun = import_module("rerun")
    except ImportError as error:
        raise UsageError("writing .rrd files needs the Rerun SDK: pip install rerun-sdk") from error
    path = Path(out)
    check_target(path, overwrite=overwrite, inputs=[file.path for file in recording.files])
    target = rerun.RecordingStream("trainload", recording_id=path.stem)
    report = RerunReport(os.fspath(path))
    with AtomicFile(path) as file:
        target.save(str(file.tmp_path))
        _log_all(recording, rerun, target, report, progress)
        target.flush()
        target.disconnect()
        file.commit()
    return report


def _log_all(
    recording: HyperframeReader, rerun: Any, target: Any, report: RerunReport, progress: Progress | None
) -> None:
    names = [
        name for name in recording.streams if name not in (ENVELOPE_STREAM, RECORD_STREAM) and recording.count(name)
    ]
    numbers = {name: FrameNumbers(recording.stream_index(name), recording.receive_times(name)) for name in names}
    total, done = sum(recording.count(name) for name in names), 0
    for frame in recording.frames(names) if names else ():
        done += 1
        if frame.stream in report.left_out:
            continue
        received_ns = numbers[frame.stream].received(numbers[frame.stream].place(frame.stream_index))
        drawn = False
        for time_ns, path, shape in _shapes(rerun, frame):
            target.set_time("acquired", timestamp=np.datetime64(time_ns, "ns"))
            if received_ns:
                target.set_time("received", timestamp=np.datetime64(received_ns, "ns"))
            target.log(path, shape)
            drawn = True
        target.reset_time()
        if drawn:
            report.frames[frame.stream] = report.frames.get(frame.stream, 0) + 1
        else:
            report.left_out[frame.stream] = f"Rerun shows no {frame.info.kind} in {frame.info.encoding}"
        if progress is not None and done % 64 == 0:
            progress(done, total)
    if progress is not None:
        progress(total, total)


def _shapes(rerun: Any, frame: Frame) -> Iterator[tuple[int, str, Any]]:
    """(time, entity path, archetype) of what the frame shows; nothing for what Rerun cannot show."""
    info, path = frame.info, "/" + frame.stream
    media = _MEDIA.get(info.encoding.lower())
    if media is not None:
        yield frame.timestamp_ns, path, rerun.EncodedImage(contents=bytes(frame.data), media_type=media)
    elif info.is_opaque:
        return
    elif info.kind == "camera":
        yield frame.timestamp_ns, path, _raw_picture(rerun, info.encoding, frame.array())
    elif info.kind == "lidar":
        points = _positions(frame.array())
        if points is not None:
            yield frame.timestamp_ns, path, rerun.Points3D(points)
    elif info.packed or (info.dtype is not None and info.dtype.names is not None):
        for row in frame.array():
            time_ns = int(row[TIME_FIELD]) if info.packed else frame.timestamp_ns
            for name in row.dtype.names:
                numbers = np.asarray(row[name])
                if name != TIME_FIELD and numbers.dtype.kind in "iuf" and numbers.size <= 4:
                    yield time_ns, f"{path}/{name}", rerun.Scalars(numbers.astype(np.float64).ravel())


def _raw_picture(rerun: Any, encoding: str, pixels: NDArray[Any]) -> Any:
    if encoding in _DEPTH:
        return rerun.DepthImage(pixels)
    if encoding in _COLOUR:
        return rerun.Image(pixels, color_model=_COLOUR[encoding])
    return rerun.Image(pixels) if pixels.ndim == 3 else rerun.Tensor(pixels)


def _positions(points: NDArray[Any]) -> NDArray[np.float32] | None:
    names = points.dtype.names
    if names is None:
        return points[:, :3].astype(np.float32) if points.ndim == 2 and points.shape[1] >= 3 else None
    if not set(_XYZ) <= set(names):
        return None
    xyz = np.stack([points[name].astype(np.float32) for name in _XYZ], axis=-1)
    finite: NDArray[np.float32] = xyz[np.isfinite(xyz).all(axis=-1)]
    return finite
