"""A small nuScenes data set made for tests: two drives, the first with two scenes, and tables of the real schema."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

LOG, OTHER_LOG = "n015-2018-07-24-11-22-45+0800", "n008-2018-08-01-15-16-36-0400"
START_US = 1532402927600000
CHANNELS = ("CAM_FRONT", "LIDAR_TOP")
SAMPLES_PER_SCENE, SWEEPS_PER_SAMPLE = 3, 2
Table = list[dict[str, Any]]


def jpeg() -> bytes:
    """A small picture."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "gray").save(file, "JPEG")
    return file.getvalue()


def token(*parts: object) -> str:
    """32 letters, as a real token has."""
    return "".join(str(part) for part in parts).ljust(32, "x")


def write_nuscenes(root: Path, *, can_bus: bool = True) -> dict[str, Table]:
    """Write the data set; returns its tables."""
    tables = _descriptions()
    for number, log in enumerate((LOG, OTHER_LOG)):
        tables["log"].append({"token": token("log", number), "logfile": log, "vehicle": "n015", "location": "here"})
        for scene in range(2 if log == LOG else 1):
            _add_scene(tables, root, log, 10 * number + scene)
    for name, rows in tables.items():
        write_json(root / "v1.0-mini" / f"{name}.json", rows)
    write(root / "maps/mask.png", b"a map")
    if can_bus:
        for scene in (0, 1, 10):
            base = root / "can_bus" / f"scene-{scene:04}"
            start = START_US + scene * 10**7
            write_json(Path(f"{base}_pose.json"), [{"utime": start + 20_000 * k, "vel": [k, 0.1, 0]} for k in range(5)])
            write_json(Path(f"{base}_zoesensors.json"), [{"utime": start + 1000, "brake_sensor": 0.375}])
            write_json(Path(f"{base}_meta.json"), {"pose": {"message_count": 5}})
            write_json(Path(f"{base}_route.json"), [[1.5, 2.5], [3.5, 4.5]])
    return tables


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    write(path, json.dumps(value, indent=0, ensure_ascii=False).encode())


def _descriptions() -> dict[str, Table]:
    names = ("log", "scene", "sample", "sample_data", "ego_pose", "sample_annotation", "instance", "calibrated_sensor")
    tables: dict[str, Table] = {name: [] for name in names}
    tables["sensor"] = [{"token": token("sensor", c), "channel": c, "modality": "x"} for c in CHANNELS]
    tables["category"] = [{"token": token("cat", n), "name": n} for n in ("human", "vehicle.car")]
    tables["attribute"] = [{"token": token("attr", n), "name": n} for n in ("moving", "with_rider", "parked")]
    tables["visibility"] = [{"token": str(k + 1), "level": f"v{k}"} for k in range(4)]
    tables["map"] = [{"token": token("map"), "log_tokens": [token("log", 0)], "filename": "maps/mask.png"}]
    return tables


def _add_scene(tables: dict[str, Table], root: Path, log: str, scene: int) -> None:
    start = START_US + scene * 10**7
    scene_token = token("scene", scene)
    tables["scene"].append(
        {
            "token": scene_token,
            "name": f"scene-{scene:04}",
            "description": "Strasse, naß",
            "log_token": token("log", scene // 10),
        }
    )
    for channel in CHANNELS:
        tables["calibrated_sensor"].append(
            {
                "token": token("cs", scene, channel),
                "sensor_token": token("sensor", channel),
                "translation": [1, 2, 3.5],
                "rotation": [1, 0, 0, 0],
                "camera_intrinsic": [],
            }
        )
    for k in range(SAMPLES_PER_SCENE):
        time, sample = start + 500_000 * k, token("s", scene, "_", k)
        tables["sample"].append(
            {"token": sample, "timestamp": time, "scene_token": scene_token, "prev": "", "next": ""}
        )
        for channel in CHANNELS:
            for sweep in range(SWEEPS_PER_SAMPLE):
                _add_data(tables, root, log, scene, sample, channel, time + 250_000 * sweep, key=sweep == 0)
        for box in range(k):  # the first sample of a scene has none
            _add_box(tables, scene, sample, k, box)


def _add_data(
    tables: dict[str, Table], root: Path, log: str, scene: int, sample: str, channel: str, time: int, *, key: bool
) -> None:
    ending, data = ("pcd.bin", np.ones((3, 5), "<f4").tobytes()) if channel == "LIDAR_TOP" else ("jpg", jpeg())
    name = f"{'samples' if key else 'sweeps'}/{channel}/{log}__{channel}__{time}.{ending}"
    write(root / name, data)
    own = token("sd", channel, time)
    tables["sample_data"].append(
        {
            "token": own,
            "sample_token": sample,
            "ego_pose_token": own,
            "timestamp": time,
            "is_key_frame": key,
            "calibrated_sensor_token": token("cs", scene, channel),
            "filename": name,
            "height": 900,
            "width": 1600,
        }
    )
    pose = {"token": own, "timestamp": time, "translation": [time % 1000 + 0.1, 2, 0], "rotation": [1, 0, 0, 0]}
    tables["ego_pose"].append(pose)


def _add_box(tables: dict[str, Table], scene: int, sample: str, k: int, box: int) -> None:
    instance = token("i", scene, "_", box)
    if not any(row["token"] == instance for row in tables["instance"]):
        category = token("cat", ("human", "vehicle.car")[box % 2])
        tables["instance"].append({"token": instance, "category_token": category, "nbr_annotations": 2})
    tables["sample_annotation"].append(
        {
            "token": token("a", scene, "_", k, "_", box),
            "sample_token": sample,
            "instance_token": instance,
            "attribute_tokens": [token("attr", "moving"), token("attr", "parked")],
            "visibility_token": "3",
            "translation": [k + 0.5, box, 0],
            "size": [1.9, 4.5, 1.6],
            "rotation": [0.6, 0, 0, 0.8],
            "num_lidar_pts": 10 + box,
            "num_radar_pts": 0,
            "prev": "",
            "next": "",
        }
    )
