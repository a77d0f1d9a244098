"""ROS messages for the importer's tests, made by rosbags, which is the oracle for their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

rosbags = pytest.importorskip("rosbags")
from rosbags.typesys import Stores, get_typestore  # noqa: E402

S = 1_000_000_000
ACQUIRED = 1_700_000_000 * S  # of message k: + k * 100 ms
LATENCY = 30_000_000
ROS2, ROS1 = get_typestore(Stores.ROS2_HUMBLE), get_typestore(Stores.ROS1_NOETIC)
TYPES = {
    "/cam/raw": "sensor_msgs/msg/Image",
    "/cam/jpeg": "sensor_msgs/msg/CompressedImage",
    "/lidar": "sensor_msgs/msg/PointCloud2",
    "/imu": "sensor_msgs/msg/Imu",
    "/gps": "sensor_msgs/msg/NavSatFix",
    "/odom": "nav_msgs/msg/Odometry",
    "/scan": "sensor_msgs/msg/LaserScan",
    "/note": "std_msgs/msg/String",
}
CLOUD = np.dtype(
    {
        "names": ["x", "y", "z", "ring"],
        "formats": ["<f4", "<f4", "<f4", "<u2"],
        "offsets": [0, 4, 8, 16],
        "itemsize": 24,
    }
)


def acquired(k: int) -> int:
    return ACQUIRED + k * S // 10


def cloud(k: int) -> np.ndarray:
    points = np.zeros(5 + k, CLOUD)
    points["x"], points["ring"] = np.arange(5 + k), k
    return points


def message(types, topic: str, k: int):
    """Message k of a topic; `types` is ROS1 or ROS2, whose headers differ."""
    t = types.types
    seconds, nanoseconds = divmod(acquired(k), S)
    stamp = t["builtin_interfaces/msg/Time"](sec=seconds, nanosec=nanoseconds)
    seq = {"seq": k} if types is ROS1 else {}
    header = t["std_msgs/msg/Header"](stamp=stamp, frame_id="sensor" + "x" * (k % 5), **seq)
    vector, point, quaternion = (t[f"geometry_msgs/msg/{n}"] for n in ("Vector3", "Point", "Quaternion"))
    turn = quaternion(x=0.0, y=0.0, z=np.sin(k / 10), w=np.cos(k / 10))
    if topic == "/cam/raw":
        return t[TYPES[topic]](header, 2, 3, "bgr8", 0, 9, (np.arange(18) + k).astype(np.uint8))
    if topic == "/cam/jpeg":
        return t[TYPES[topic]](header, "jpeg", np.frombuffer(b"\xff\xd8" + bytes([k]) * (k + 3), np.uint8))
    if topic == "/lidar":
        places: Any = CLOUD.fields
        kinds = {name: 4 if name == "ring" else 7 for name in places}
        fields = [t["sensor_msgs/msg/PointField"](name, places[name][1], kind, 1) for name, kind in kinds.items()]
        points = cloud(k)
        return t[TYPES[topic]](header, 1, len(points), fields, False, 24, 24 * len(points), points.view(np.uint8), True)
    if topic == "/imu":
        nine = np.arange(9.0)
        return t[TYPES[topic]](header, turn, nine, vector(1.0, 2.0, float(k)), nine, vector(7.0, 8.0, 9.0), nine + 1)
    if topic == "/gps":
        status = t["sensor_msgs/msg/NavSatStatus"](status=-1, service=5)
        return t[TYPES[topic]](header, status, 48.0, 11.0 + k, 500.0, np.arange(9.0), 2)
    if topic == "/odom":
        pose = t["geometry_msgs/msg/Pose"](point(float(k), 1.0, 2.0), turn)
        twist = t["geometry_msgs/msg/Twist"](vector(3.0, 4.0, 5.0), vector(6.0, 7.0, 8.0))
        return t[TYPES[topic]](
            header,
            "base",
            t["geometry_msgs/msg/PoseWithCovariance"](pose, np.arange(36.0)),
            t["geometry_msgs/msg/TwistWithCovariance"](twist, np.arange(36.0)),
        )
    if topic == "/scan":
        two = np.array([1, 2], np.float32)
        return t[TYPES[topic]](header, 0.0, 1.0, 0.1, 0.0, 0.1, 0.5, 9.0, two, two)
    return t[TYPES[topic]](f"note {k}")


def log(types, count: int = 12):
    """(topic, log time, publish time, sequence, bytes) of `count` messages of every topic, in the order of a log."""
    serialize = types.serialize_ros1 if types is ROS1 else types.serialize_cdr
    for k in range(count):
        for number, (topic, name) in enumerate(TYPES.items()):
            received = acquired(k) + LATENCY + number
            yield topic, received, received - 5, k * 3, bytes(serialize(message(types, topic, k), name))
