"""What the blocks of README and docs find when they run: the files they name, the values they take as given."""

from __future__ import annotations

import shutil
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import imagenet_archives
import trainload as tl
from drive_data import picture
from picture_folders import class_folders
from sensor_messages import ROS2, TYPES, log
from trainload.recordings.exporters.mcap import export_mcap

SECOND = 1_000_000_000
START_NS = 1_700_000_000 * SECOND
POINT = [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4")]
MOTION = [("gyro", "<f4", (3,)), ("accel", "<f4", (3,))]
BOX = [("translation", "<f8", (3,)), ("category", "<i4")]
POSE = [("translation", "<f8", (3,)), ("rotation_wxyz", "<f8", (4,))]


def make_world(root: Path) -> Path:
    """A folder with imagenet/, data/, train.dts, drive.hfr, drive.mcap, logs/, drives/, bag_folder/ and ilsvrc2012/."""
    class_folders(root / "imagenet/train", classes=4, each=80, size=(48, 40))
    make_ilsvrc2012(root / "ilsvrc2012")
    class_folders(root / "data/train", classes=3, each=4)
    class_folders(root / "data/val", classes=2, each=4)
    tl.pack_images(root / "imagenet/train", root / "train.dts", level=3, jobs=1)
    record_drive(root / "drive.hfr")
    (root / "drives").mkdir()
    for n in range(2):
        shutil.copy(root / "drive.hfr", root / f"drives/{n}.hfr")
    with tl.open_recording(root / "drive.hfr") as drive:
        export_mcap(drive, root / "drive.mcap")
    (root / "logs").mkdir()
    for day in ("monday", "tuesday"):
        shutil.copy(root / "drive.mcap", root / f"logs/{day}.mcap")
    make_bag(root / "bag_folder")
    return root


def make_ilsvrc2012(folder: Path) -> None:
    """ImageNet's archives and development kit, made small."""
    imagenet_archives.class_folders(folder / "unpacked")
    imagenet_archives.archives(folder / "unpacked", folder)
    shutil.rmtree(folder / "unpacked")
    name = "ILSVRC2012_validation_ground_truth.txt"
    with tarfile.open(folder / "ILSVRC2012_devkit_t12.tar.gz", "w:gz") as kit:
        imagenet_archives.add(kit, f"data/{name}", imagenet_archives.label_lists()[name].encode())


def record_drive(path: Path, *, seconds: int = 4) -> None:
    """Every stream that the docs name, from one clock."""
    rng = np.random.default_rng(0)
    due: list[tuple[int, str, np.ndarray[Any, Any] | bytes]] = [(0, "map", b"a map")]
    for k in range(10 * seconds):
        at = k * SECOND // 10
        cloud = rng.random((50 + k % 3, 4), np.float32).view(POINT)
        due += [(at, "lidar", cloud), (at, "lidar/top", cloud), (at + 1_000_000, "radar", rng.bytes(16))]
    for k in range(20 * seconds):
        pose = np.array([((k, 0, 0), (1, 0, 0, 0))], POSE)
        due += [(k * SECOND // 20, "camera/front", picture(k)), (k * SECOND // 20, "ego_pose", pose)]
    due += [(k * SECOND // 100, "imu", np.array([((k, 0, 0), (0, 0, 9))], MOTION)) for k in range(100 * seconds)]
    due += [(k * SECOND // 2, "annotations", np.array([((k, 1, 0), k % 2)], BOX)) for k in range(2 * seconds)]
    with tl.HyperframeWriter(path, window="100ms") as writer:
        camera = writer.add_stream("camera/front", kind="camera", encoding="jpeg", rate_hz=20)
        for name in ("lidar", "lidar/top"):
            writer.add_stream(name, kind="lidar", dtype=POINT, rate_hz=10, frame_duration="50ms")
        writer.add_stream("radar", kind="radar", dtype="<f4", shape=(-1, 2), frame_duration="20ms")
        writer.add_stream("imu", kind="imu", dtype=MOTION, packed=True, rate_hz=100)
        writer.add_stream("ego_pose", kind="pose", dtype=POSE)
        writer.add_stream("map")
        writer.add_stream("annotations", dtype=BOX, calibration={"categories": ["car", "human"]})
        assert camera == 0
        for at, name, payload in sorted(due, key=lambda frame: frame[:2]):
            data = payload if isinstance(payload, bytes) else payload.tobytes()
            writer.append(name, START_NS + at, data, receive_ns=START_NS + at + 1000)


def make_bag(folder: Path) -> None:
    """A ROS 2 bag with camera, lidar and IMU."""
    from rosbags import rosbag2

    with rosbag2.Writer(folder, version=9) as writer:
        connections = {topic: writer.add_connection(topic, kind, typestore=ROS2) for topic, kind in TYPES.items()}
        for topic, at, _, _, data in log(ROS2):
            writer.write(connections[topic], at, data)


def given(page: str) -> dict[str, Any]:
    """The names that a page's Python blocks take as given."""
    now, moment = time.time_ns(), START_NS + SECOND
    lidar = START_NS + np.arange(20, dtype=np.int64) * (SECOND // 10)
    camera = START_NS + np.arange(60, dtype=np.int64) * (SECOND // 30)
    values: dict[str, dict[str, Any]] = {
        "docs/recording.md": {"timestamp_ns": now, "jpeg": picture(0)},
        "docs/recordings.md": {"t": moment, "t0": moment, "t1": moment + SECOND},
        "docs/aligning.md": {
            "lidar_ns": lidar,
            "camera_ns": camera,
            "arrived_ns": camera + 1000,
            "imu_ns": START_NS + np.arange(200, dtype=np.int64) * (SECOND // 100),
            "turn_rates": np.zeros((200, 3)),
        },
    }
    return {"tl": tl, **values.get(page, {})}
