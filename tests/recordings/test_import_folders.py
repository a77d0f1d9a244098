"""Data-set folders come in with their own times, exactly; what cannot be read is counted."""

from __future__ import annotations

import io
import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import sensor_folders
import trainload as tl
from trainload.errors import UsageError
from trainload.recordings.importers.columns import seconds_to_ns
from trainload.recordings.importers.formats import ALSO_CALLED, FORMATS, format_name, open_source
from trainload.recordings.importers.import_source import import_source


def picture(encoding: str) -> bytes:
    """The bytes of a small picture."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "gray").save(file, encoding)
    return file.getvalue()


PNG, JPEG = picture("PNG"), picture("JPEG")


def write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def imported(tmp_path: Path, kind: str, path: Path, **options):
    source = open_source(kind, path, **options)
    report = import_source(source, tmp_path / f"{kind}.hfr", kind=kind, overwrite=True)
    return report, tl.open_recording(tmp_path / f"{kind}.hfr")


def test_kitti_raw_with_timestamps_sweeps_and_oxts(tmp_path):
    root = tmp_path / "drive_sync"
    lines = [f"2011-09-26 13:02:2{k}.964389445" for k in range(3)]
    for k in range(3):
        write(root / f"image_02/data/{k:010d}.png", PNG)
        write(root / f"velodyne_points/data/{k:010d}.bin", np.full((4, 4), k, "<f4").tobytes())
        write(root / f"oxts/data/{k:010d}.txt", " ".join(str(k + n) for n in range(30)))
    for sensor in ("image_02", "oxts"):
        write(root / sensor / "timestamps.txt", "\n".join(lines))
    write(root / "velodyne_points/timestamps_start.txt", "\n".join(lines))
    write(root / "velodyne_points/timestamps_end.txt", "\n".join(line.replace("964", "998") for line in lines))
    report, drive = imported(tmp_path, "kitti", root)
    with drive:
        assert not report.damage
        assert drive.timestamps("image_02")[0] == 1317042140964389445
        assert (drive.durations("velodyne") == 34_000_000).all()
        assert drive.read_at_index("velodyne", 2).array().tolist() == [[2] * 4] * 4
        assert {info.clock for info in drive.streams.values()} == {"hardware"}
        oxts = drive.read_at_index("oxts", 0).array()
        assert oxts["lat"].tolist()[:2] == [0, 1] or len(oxts) == 1
        match = tl.align(drive, to="velodyne", using={"image_02": tl.Interval()})
        assert match.complete.all()


MADE_AND_REAL = pytest.mark.parametrize("real", [False, True], ids=["made", "real"])


@MADE_AND_REAL
def test_kitti_without_timestamps_counts_frames_and_says_so(tmp_path, at_hand, real):
    root = at_hand("shared/data/sensors/kitti") if real else sensor_folders.kitti(tmp_path / "drive")
    report, drive = imported(tmp_path, "kitti", root)
    with drive:
        assert drive.timestamps("velodyne").tolist() == [k * 100_000_000 for k in range(10)]
        assert drive.streams["velodyne"].clock == "host"
        assert any("no clock measured them" in note for note in report.notes)
        raw = (root / "velodyne_points/data/0000000003.bin").read_bytes()
        assert bytes(drive.read_at_index("velodyne", 3).data) == raw


@MADE_AND_REAL
def test_nuscenes_takes_times_from_names(tmp_path, at_hand, real):
    root = at_hand("shared/data/sensors/nuscenes") if real else sensor_folders.nuscenes(tmp_path / "drive")
    report, drive = imported(tmp_path, "nuscenes", root)
    with drive:
        pairs = tl.align(drive, to="lidar/top")
        residuals = sorted(float(values[0]) / 1e6 for values in pairs.residuals.values())
        assert residuals[0] == pytest.approx(-43.107)
        assert residuals[-1] == pytest.approx(-0.528)
        assert drive.read_at_index("lidar/top", 0).array().shape == (34688 if real else 30, 5)
        assert len(drive.streams) == 7
    assert not report.damage


def test_nuscenes_takes_calibration_from_its_tables_and_asks_which_drive(tmp_path):
    root = tmp_path / "nu"
    for log in ("a", "b"):
        write(root / f"samples/CAM_FRONT/{log}__CAM_FRONT__1532402927612460.jpg", JPEG)
    write(root / "v1.0-mini/sensor.json", json.dumps([{"token": "s", "channel": "CAM_FRONT", "modality": "camera"}]))
    calibration = {"token": "c", "sensor_token": "s", "translation": [1, 2, 3], "rotation": [1, 0, 0, 0]}
    write(root / "v1.0-mini/calibrated_sensor.json", json.dumps([calibration]))
    with pytest.raises(UsageError, match="a, b"):
        open_source("nuscenes", root)
    _, drive = imported(tmp_path, "nuscenes", root, log="b")
    with drive:
        assert drive.streams["camera/front"].calibration["translation"] == [1, 2, 3]


@MADE_AND_REAL
def test_euroc_comes_in_with_ns_times_and_calibration(tmp_path, at_hand, real):
    root = at_hand("shared/data/sensors/euroc") if real else sensor_folders.euroc(tmp_path / "sequence")
    report, drive = imported(tmp_path, "euroc", root)
    with drive:
        assert not report.damage
        assert drive.timestamps("cam0")[0] == 1403715273262142976
        assert drive.streams["cam0"].calibration["intrinsics"] == [458.654, 457.296, 367.215, 248.375]
        assert len(drive.streams["cam0"].calibration["T_BS"]["data"]) == 16
        pairs = tl.align(drive, to="cam0", using={"cam1": tl.Nearest(), "imu0": tl.Interpolate()})
        assert [stream.max_ns for stream in pairs.report().streams] == [0, 0]
        line = (root / "mav0/imu0/data.csv").read_text().splitlines()[1].split(",")
        assert pairs.values("imu0")["a_RS_S_z"][0] == float(line[6])
    assert report.window.window_ns in range(50_000_000, 100_000_001)


def test_euroc_counts_lines_and_pictures_that_cannot_be_read(tmp_path):
    write(tmp_path / "mav0/cam0/data.csv", "#timestamp [ns],filename\n1,1.png\n2,2.png\nnine,3.png\n")
    write(tmp_path / "mav0/cam0/data/1.png", PNG)
    report, drive = imported(tmp_path, "euroc", tmp_path)
    with drive:
        assert drive.count("cam0") == 1
    assert report.damage.frames == 2
    assert len(report.damage.reasons) == 2


@pytest.mark.parametrize(
    ("scale", "unit"),
    [("{}", ""), ("{0:.16}", ", microseconds"), ("{0:.13}", ", milliseconds"), ("{0:.10}.{1}", ", seconds")],
)
def test_euroc_times_of_another_unit_are_seen_and_said(tmp_path, scale, unit):
    times = [1403636579760000000 + k * 10_000_000 for k in range(5)]
    rows = "".join(f"{scale.format(str(time), str(time)[10:])},{k}.5\n" for k, time in enumerate(times))
    (tmp_path / "mav0/imu0").mkdir(parents=True)
    (tmp_path / "mav0/imu0/data.csv").write_text("#timestamp [ns],w\n" + rows)
    report, drive = imported(tmp_path, "euroc", tmp_path)
    with drive:
        assert drive.timestamps("imu0")[0] == times[0]
        samples = drive.read_at_index("imu0", 0).array()
        assert samples["timestamp_ns"].tolist() == times[: len(samples)]
    assert report.streams["imu0"]["time_source"] == "data.csv, first column" + unit
    assert bool(report.notes) == bool(unit)


def test_euroc_times_since_a_start_stay_nanoseconds(tmp_path):
    times = [1_400_000_000_000_000 + k * 5_000_000 for k in range(5)]  # 16 days; as microseconds the year 2014
    (tmp_path / "mav0/imu0").mkdir(parents=True)
    (tmp_path / "mav0/imu0/data.csv").write_text("#timestamp [ns],w\n" + "".join(f"{time},1\n" for time in times))
    _, drive = imported(tmp_path, "euroc", tmp_path)
    with drive:
        assert drive.start_ns == times[0]


def test_tum_whole_numbers_that_are_no_seconds_are_another_unit(tmp_path):
    root = tmp_path / "tum"
    root.mkdir()
    lines = [
        "1305031102175304 1 2 3",
        "1305031102.275304 1 2 3",
        "1305031102375304001 1 2 3",
        "1305031102475 1 2 3",
        "7 1 2 3",
    ]
    (root / "accelerometer.txt").write_text("\n".join(lines) + "\n")
    report, drive = imported(tmp_path, "tum", root)
    with drive:
        found = np.concatenate([frame.array()["timestamp_ns"] for frame in drive.frames()]).tolist()
    assert sorted(found) == [
        7 * 10**9,
        1305031102175304000,
        1305031102275304000,
        1305031102375304001,
        1305031102475000000,
    ]
    assert report.notes == ["accelerometer.txt: times of 16 digits without decimals are taken for microseconds"]


def test_tum_keeps_every_digit_of_its_seconds(tmp_path):
    root = tmp_path / "tum"
    write(root / "rgb.txt", "# color\n1305031102.175304 rgb/1305031102.175304.png\nbroken\n")
    write(root / "rgb/1305031102.175304.png", PNG)
    write(root / "groundtruth.txt", "# t\n1305031102.1758 1 2 3 0 0 0 1\n1305031102.2 1 2 3 0 0 1 0\n")
    write(root / "accelerometer.txt", "1305031102.1 0.1 0.2 9.8\n")
    report, drive = imported(tmp_path, "tum", root)
    with drive:
        assert drive.timestamps("rgb").tolist() == [1305031102175304000]
        assert report.damage.frames == 1
        pairs = tl.align(drive, to="rgb", using={"groundtruth": tl.Previous(), "accelerometer": tl.Nearest()})
        assert pairs.values("accelerometer")["az"][0] == 9.8


def comma_segment(at_hand, tmp_path, real):
    if real:
        return next(at_hand("shared/data/sensors/comma2k19/Example_1").glob("*/40"))
    return sensor_folders.comma(tmp_path / "segment")


@MADE_AND_REAL
def test_comma2k19_comes_in_with_a_clock_per_array(tmp_path, at_hand, real):
    segment = comma_segment(at_hand, tmp_path, real)
    report, drive = imported(tmp_path, "comma2k19", segment)
    with drive:
        assert not report.damage
        gyro = np.load(segment / "processed_log/IMU/gyro/value")
        times = np.load(segment / "processed_log/IMU/gyro/t")
        pairs = tl.align(drive, to="imu/gyro", using={"imu/accelerometer": tl.Nearest()})
        order = np.argsort(times, kind="stable")
        assert np.array_equal(pairs.recording.values("imu/gyro"), gyro[order])
        assert np.abs(pairs.times / 1e9 - times[order]).max() < 1e-6
        assert drive.streams["can/radar"].clock == "host"
        with pytest.raises(UsageError, match="host-stamped can/radar"):
            tl.align(drive, to="global_pose", using={"can/radar": tl.Nearest()})


def test_a_folder_of_folders_and_csv_files(tmp_path):
    root = tmp_path / "rig"
    for k in range(3):
        write(root / f"camera/frame_{1_700_000_000_000 + 100 * k}.jpg", JPEG)
    write(root / "camera/notes.txt", "no time here")
    write(root / "imu.csv", "timestamp_us,ax,ay\n1700000000000000,1,2\n1700000000005000,3,4\nlater,5,6\n")
    report, drive = imported(tmp_path, "folder", root, stamped_by="hardware")
    with drive:
        assert drive.timestamps("camera").tolist() == [(1_700_000_000_000 + 100 * k) * 10**6 for k in range(3)]
        assert drive.streams["camera"].encoding == "jpeg"
        pairs = tl.align(drive, to="camera", using={"imu": tl.Nearest(max="1ms")})
        assert pairs.values("imu")["ay"][0] == 2
        assert drive.streams["imu"].clock == "hardware"
    assert report.damage.frames == 2


def test_rows_with_text_become_json_objects(tmp_path):
    write(tmp_path / "rig/events.csv", 'event,time\nbrake,1700000000.25\n"turn, left",1700000001.5\n')
    _, drive = imported(tmp_path, "folder", tmp_path / "rig")
    with drive:
        assert json.loads(bytes(drive.read_at_index("events", 1).data)) == {
            "event": "turn, left",
            "time": "1700000001.5",
        }
        assert drive.timestamps("events").tolist() == [1_700_000_000_250_000_000, 1_700_000_001_500_000_000]


def test_a_folder_is_host_stamped_until_someone_knows_better(tmp_path):
    write(tmp_path / "rig/gps.csv", "t [s],lat\n1.5,48\n")
    _, drive = imported(tmp_path, "folder", tmp_path / "rig")
    with drive:
        assert drive.streams["gps"].clock == "host"
        assert drive.meta["import"]["streams"]["gps"]["time_source"] == "column 't [s]', s"


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1305031102.175304", 1305031102175304000),
        ("-0.5", -500_000_000),
        ("2", 2 * 10**9),
        ("1e-3", 10**6),
        ("1.0000000019", 1_000_000_001),
    ],
)
def test_decimal_seconds_are_exact(text, ns):
    assert seconds_to_ns(text) == ns


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind not in ("mcap", "rosbag1", "rosbag2")])
def test_an_empty_folder_is_a_usage_error(tmp_path, kind):
    with pytest.raises(UsageError):
        open_source(kind, tmp_path)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("dvd", {}), ("euroc", {"unit": "ns"}), ("folder", {"unit": "days"}), ("kitti", {"clocks": {}})],
)
def test_formats_and_options_that_do_not_exist_are_usage_errors(tmp_path, kind, options):
    with pytest.raises(UsageError):
        open_source(kind, tmp_path, **options)


def test_every_name_of_a_format_that_readme_and_docs_print_is_one(tmp_path):
    root = Path(__file__).parents[2]
    text = "\n".join(path.read_text() for path in [root / "README.md", *(root / "docs").rglob("*.md")])
    lines = re.findall(r"trainload import (\w+)[^#\n]*(?:# or ([\w, ]+))?", text)
    names = {name for first, more in lines for name in [first, *more.replace(",", " ").split()]}
    assert {"mcap", "rosbag", "comma", "comma2k19"} <= names <= {*FORMATS, *ALSO_CALLED}
    for name in names:
        with pytest.raises(UsageError, match="there is nothing at"):
            open_source(name, tmp_path / "nothing")


def test_rosbag_is_what_lies_there(tmp_path):
    (tmp_path / "a.bag").write_bytes(b"#ROSBAG V2.0\n")
    (tmp_path / "empty.bag").write_bytes(b"")
    assert format_name("rosbag", tmp_path / "empty.bag") == "rosbag1"
    (tmp_path / "two").mkdir()
    (tmp_path / "two/a_0.db3").write_bytes(b"SQLite format 3\0")
    assert format_name("rosbag", tmp_path / "a.bag") == format_name("rosbag", tmp_path) == "rosbag1"
    assert format_name("rosbag", tmp_path / "two") == format_name("rosbag", tmp_path / "two/a_0.db3") == "rosbag2"


def test_the_hint_on_protobuf_names_an_extra_that_brings_it():
    about = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert any(need.startswith("protobuf") for need in about["project"]["optional-dependencies"]["robotics"])
