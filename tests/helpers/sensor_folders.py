"""Small folders in the layouts of KITTI, nuScenes, EuRoC and comma2k19, with the clocks of the real ones."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

EUROC_START = 1403715273262142976


def picture(seed: int, encoding: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 12, 3), np.uint8)).save(file, encoding)
    return file.getvalue()


def write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def save(path: Path, array: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.save(file, array)


def kitti(root: Path) -> Path:
    """Ten frames without time stamps."""
    for k in range(10):
        write(root / f"image_02/data/{k:010d}.png", picture(k, "PNG"))
        sweep = np.random.default_rng(k).normal(size=(20 + k, 4)).astype("<f4")
        write(root / f"velodyne_points/data/{k:010d}.bin", sweep.tobytes())
    return root


def nuscenes(root: Path) -> Path:
    """One key frame: a sweep, and six pictures taken -43.107 to -0.528 ms from it, as their names say."""
    log, sweep_us = "n015-2018-07-24-11-22-45+0800", 1532402927647951
    before_us = {"FRONT_LEFT": 43107, "FRONT": 35491, "FRONT_RIGHT": 27612, "BACK_RIGHT": 20058, "BACK": 10426}
    for name, before in {**before_us, "BACK_LEFT": 528}.items():
        write(root / f"{log}__CAM_{name}__{sweep_us - before}.jpg", picture(before, "JPEG"))
    write(root / f"{log}__LIDAR_TOP__{sweep_us}.pcd.bin", np.zeros((30, 5), "<f4").tobytes())
    return root


def euroc(root: Path) -> Path:
    """20 stereo pairs at 20 Hz, an IMU at 200 Hz on the same clock, and what calibrates them."""
    times = [EUROC_START + k * 50_000_000 for k in range(20)]
    for cam in ("cam0", "cam1"):
        lines = "".join(f"{time},{time}.png\n" for time in times)
        write(root / f"mav0/{cam}/data.csv", "#timestamp [ns],filename\n" + lines)
        for time in times:
            write(root / f"mav0/{cam}/data/{time}.png", picture(time % 1000, "PNG"))
        matrix = ", ".join(str(float(k % 5 == 0)) for k in range(16))
        write(
            root / f"mav0/{cam}/sensor.yaml",
            "%YAML:1.0\nsensor_type: camera\nT_BS:\n  cols: 4\n  rows: 4\n"
            f"  data: [{matrix}]\nrate_hz: 20\nintrinsics: [458.654, 457.296, 367.215, 248.375]\n",
        )
    columns = "#timestamp [ns]," + ",".join(f"{name}_RS_S_{axis}" for name in "wa" for axis in "xyz")
    rows = "".join(f"{EUROC_START + k * 5_000_000},0.1,0.2,0.3,9.1,0.4,{-3 - k / 8}\n" for k in range(200))
    write(root / "mav0/imu0/data.csv", f"{columns}\n{rows}")
    write(root / "mav0/imu0/sensor.yaml", "%YAML:1.0\nsensor_type: imu\nrate_hz: 200\n")
    return root


def comma(root: Path) -> Path:
    """A drive of 20 s through curves: wheel and speed on the CAN bus at 83 Hz, gyroscope at 104 Hz, poses at 20 Hz."""
    rng = np.random.default_rng(1)

    def times(rate_hz: float) -> NDArray[np.float64]:
        return 46408.5 + np.arange(int(20 * rate_hz)) / rate_hz + rng.uniform(0, 0.2 / rate_hz, int(20 * rate_hz))

    def wheel(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return 20 * np.sin((at - 46408.5) / 2)

    log = root / "processed_log"
    can, imu, poses = times(83), times(104), times(20)
    turning = np.radians(wheel(imu))[:, None] * [0.1, 0.1, 0.5]  # rad/s about each axis
    for name, at, values in (
        ("CAN/steering_angle", can, wheel(can)),
        ("CAN/speed", can, 25 + np.sin(can)[:, None]),
        ("CAN/radar", can[::2], rng.normal(size=(len(can[::2]), 7))),
        ("IMU/gyro", imu, turning),
        ("IMU/accelerometer", imu, rng.normal(size=(len(imu), 3))),
    ):
        save(log / name / "t", at)
        save(log / name / "value", values)
    save(root / "global_pose/frame_times", poses)
    save(root / "global_pose/frame_positions", rng.normal(size=(len(poses), 3)))
    return root
