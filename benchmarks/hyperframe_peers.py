"""The sides of hyperframe_read.py: each writes the same messages and reads a frame, a window, or everything.

Every side is used as its documentation shows. A side that is not installed is left out, and the report says so. `bare`
is os.pread of the same bytes: the floor.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

import trainload as tl
from hyperframe_write import CODECS, STREAMS, Frame, write_hyperframes, write_mcap
from trainload.recordings.writing.writer import HyperframeWriter

WINDOW_NS = 100_000_000


class Side(ABC):
    """One contender over one file. Counts are bytes of payload, so that nobody can skip work."""

    name: str
    file: str | None = None  # the side whose file this one reads: where pages lie in the cache makes half as much again
    codecs: tuple[str, ...] = ("none", "lz4", "zstd")
    has_windows = True  # of all five streams

    def __init__(self, folder: Path, codec: str) -> None:
        self.path = folder / f"{(self.file or self.name).replace(' ', '_')}.{codec}"
        self.codec = codec

    @abstractmethod
    def write(self, frames: list[Frame]) -> None: ...

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def lidar_frame(self, time_ns: int) -> int: ...

    @abstractmethod
    def window(self, start_ns: int, end_ns: int) -> int: ...

    @abstractmethod
    def everything(self) -> int: ...


class Trainload(Side):
    name = "trainload"
    verify = "frames"
    helpers: int | None = None

    def write(self, frames: list[Frame]) -> None:
        with HyperframeWriter(self.path, overwrite=True) as writer:
            for stream in STREAMS:
                codec = "none" if stream.name == "camera" else self.codec
                writer.add_stream(stream.name, rate_hz=stream.rate_hz, codec=codec)
            for at, name, data in frames:
                writer.append(name, at, data)

    def open(self) -> None:
        self.drive = tl.HyperframeReader(self.path, verify=self.verify, helpers=self.helpers)
        self.drive.read("lidar", 0)
        self.windows = {int(start): k for k, start in enumerate(self.drive.windows.starts)}

    def lidar_frame(self, time_ns: int) -> int:
        frame = self.drive.read("lidar", time_ns)
        assert frame is not None
        return len(frame.data)

    def window(self, start_ns: int, end_ns: int) -> int:
        window = self.drive.window(self.windows[start_ns])
        return sum(len(frame.data) for stream in window for frame in window[stream])

    def everything(self) -> int:
        return sum(len(frame.data) for frame in self.drive.frames())


class TrainloadUnchecked(Trainload):
    name = "trainload verify=none"
    file = "trainload"
    verify = "none"


class TrainloadAlone(Trainload):
    """On the caller's thread alone."""

    name = "trainload helpers=0"
    file = "trainload"
    helpers = 0


class TrainloadPacked(Trainload):
    """As a recorder writes it: the samples of imu, odom and tf of one window are one array, led by their times."""

    name = "trainload packed"

    def write(self, frames: list[Frame]) -> None:
        write_hyperframes(self.path, frames, self.codec, False)


class Bare(Trainload):
    """The same file by os.pread: the stored bytes of the frame, the window's extent, the file in 8 MB reads."""

    name = "bare"
    file = "trainload"

    def open(self) -> None:
        super().open()
        self.fd = os.open(self.path, os.O_RDONLY)
        file = self.drive.files[0]
        rows = file.index[file.rows[self.drive.streams["lidar"].id]]
        self.frames = {int(row["timestamp_ns"]): (int(row["byte_size"]), int(row["byte_offset"])) for row in rows}
        table = file.windows
        self.extents = list(zip(table.extent_size.tolist(), table.extent_offset.tolist()))

    def lidar_frame(self, time_ns: int) -> int:
        size, offset = self.frames[time_ns]
        return len(os.pread(self.fd, size, offset))

    def window(self, start_ns: int, end_ns: int) -> int:
        size, offset = self.extents[self.windows[start_ns]]
        return len(os.pread(self.fd, size, offset))

    def everything(self) -> int:
        end = self.path.stat().st_size
        return sum(len(os.pread(self.fd, 8 << 20, at)) for at in range(0, end, 8 << 20))


class Mcap(Side):
    name = "mcap"

    def write(self, frames: list[Frame]) -> None:
        write_mcap(self.path, frames, self.codec, False)

    def open(self) -> None:
        from mcap.reader import make_reader

        assert self.codec in CODECS
        self.reader = make_reader(self.path.open("rb"))

    def lidar_frame(self, time_ns: int) -> int:
        messages = self.reader.iter_messages(topics=["lidar"], starting_at=time_ns, ending_before=time_ns + 1)
        return len(next(iter(messages))[2].data)

    def window(self, start_ns: int, end_ns: int) -> int:
        return sum(len(m.data) for _, _, m in self.reader.iter_messages(starting_at=start_ns, ending_at=end_ns))

    def everything(self) -> int:
        return sum(len(m.data) for _, _, m in self.reader.iter_messages())


class Hdf5(Side):
    """One dataset of frames and one of times per stream; chunks of one large frame, or of 256 small ones."""

    name = "h5py"
    codecs = ("none", "lz4", "zstd")  # lzf and gzip 4 take their places: what h5py brings

    def write(self, frames: list[Frame]) -> None:
        import h5py

        filters: dict[str, dict[str, Any]] = {"none": {}, "lz4": {"compression": "lzf"}, "zstd": {"compression": 4}}
        with h5py.File(self.path, "w") as file:
            for stream in STREAMS:
                data = [frame.data for frame in frames if frame.stream == stream.name]
                table = np.frombuffer(b"".join(data), np.uint8).reshape(len(data), stream.size)
                options = filters["none" if stream.name == "camera" else self.codec]
                chunks = (1 if stream.size > 10_000 else min(256, len(data)), stream.size) if options else None
                file.create_dataset(stream.name, data=table, chunks=chunks, **options)
                times = np.array([frame.timestamp_ns for frame in frames if frame.stream == stream.name])
                file.create_dataset(stream.name + "_times", data=times)

    def open(self) -> None:
        import h5py

        file = h5py.File(self.path, "r")
        self.times = {stream.name: file[stream.name + "_times"][:] for stream in STREAMS}
        self.data = {stream.name: file[stream.name] for stream in STREAMS}

    def lidar_frame(self, time_ns: int) -> int:
        return len(self.data["lidar"][int(self.times["lidar"].searchsorted(time_ns))])

    def window(self, start_ns: int, end_ns: int) -> int:
        total = 0
        for name, times in self.times.items():
            first, last = times.searchsorted(start_ns), times.searchsorted(end_ns, "right")
            total += self.data[name][int(first) : int(last)].size
        return total

    def everything(self) -> int:
        """In blocks of up to 8 MB per stream, as fast as HDF5 goes; not in time order, which it does not keep."""
        total = 0
        for data in self.data.values():
            step = max(1, (8 << 20) // data.shape[1])
            for first in range(0, data.shape[0], step):
                total += data[first : first + step].size
        return total


class Rosbags(Side):
    """A ROS 2 bag in its default storage (sqlite), raw messages, nothing deserialised."""

    name = "rosbags"
    codecs = ("none",)

    def write(self, frames: list[Frame]) -> None:
        from rosbags.rosbag2 import Writer
        from rosbags.typesys import Stores, get_typestore

        shutil.rmtree(self.path, ignore_errors=True)
        store = get_typestore(Stores.ROS2_HUMBLE)
        with Writer(self.path, version=9) as writer:
            made = {s.name: writer.add_connection(s.name, "std_msgs/msg/String", typestore=store) for s in STREAMS}
            for at, name, data in frames:
                writer.write(made[name], at, data)

    def open(self) -> None:
        from rosbags.rosbag2 import Reader

        self.reader = Reader(self.path)
        self.reader.open()
        self.lidar = [connection for connection in self.reader.connections if connection.topic == "lidar"]

    def lidar_frame(self, time_ns: int) -> int:
        return len(next(iter(self.reader.messages(self.lidar, start=time_ns, stop=time_ns + 1)))[2])

    def window(self, start_ns: int, end_ns: int) -> int:
        return sum(len(data) for _, _, data in self.reader.messages(start=start_ns, stop=end_ns + 1))

    def everything(self) -> int:
        return sum(len(data) for _, _, data in self.reader.messages())


class NCore(Side):
    """NVIDIA NCore V4 (.itar): lidar and camera as encoded images; it has no place for the three small streams."""

    name = "nvidia-ncore"
    codecs = ("none",)
    has_windows = False

    def write(self, frames: list[Frame]) -> None:
        from ncore.data.v4 import CameraSensorComponent, SequenceComponentGroupsWriter
        from ncore.impl.common.transformations import HalfClosedInterval
        from upath import UPath

        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir()
        end = frames[-1].timestamp_ns // 1000 + 2
        writer = SequenceComponentGroupsWriter(UPath(self.path), "drive", "drive", HalfClosedInterval(0, end), {})
        kinds = {
            name: writer.register_component_writer(CameraSensorComponent.Writer, name) for name in ("lidar", "camera")
        }
        for at, name, data in frames:
            if name in kinds:
                stamps = np.array([at // 1000, at // 1000 + 1], np.uint64)
                kinds[name].store_frame(data, "bin", stamps, {}, {})
        writer.finalize()

    def open(self) -> None:
        from ncore.data.v4 import CameraSensorComponent, SequenceComponentGroupsReader

        reader = SequenceComponentGroupsReader(list(self.path.glob("*.itar")))
        self.sensors = reader.open_component_readers(CameraSensorComponent.Reader)

    def lidar_frame(self, time_ns: int) -> int:
        return len(self.sensors["lidar"].get_frame_data(time_ns // 1000 + 1).get_encoded_image_data())

    def window(self, start_ns: int, end_ns: int) -> int:
        raise LookupError("NCore holds no small streams, so it has no window of all streams")

    def everything(self) -> int:
        total = 0
        for sensor in self.sensors.values():
            for stamp in sensor.frames_timestamps_us[:, 1].tolist():
                total += len(sensor.get_frame_data(stamp).get_encoded_image_data())
        return total


SIDES: tuple[type[Side], ...] = (
    Trainload,
    TrainloadUnchecked,
    TrainloadAlone,
    TrainloadPacked,
    Bare,
    Mcap,
    Hdf5,
    Rosbags,
    NCore,
)
