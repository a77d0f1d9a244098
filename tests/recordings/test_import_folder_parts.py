"""What lies beside the frames of a data set - calibration, labels, ground truth, raw logs - comes in or is named."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from test_import_folders import JPEG, MADE_AND_REAL, PNG, imported, write
from test_import_folders import comma_segment as whole_comma_segment
from trainload.errors import UsageError
from trainload.recordings.aligning.recording import RecordingTimes
from trainload.recordings.importers.attached import PIECE_BYTES
from trainload.recordings.importers.formats import open_source
from trainload.recordings.importers.source import SourceFrame

CAM_TO_CAM = """calib_time: 09-Jan-2012 13:57:47
corner_dist: 9.950000e-02
S_02: 1.392000e+03 5.120000e+02
K_02: 9.597910e+02 0 6.960217e+02 0 9.569251e+02 2.241806e+02 0 0 1
D_02: -3.691481e-01 1.968681e-01 1.353473e-03 5.677587e-04 -6.770705e-02
P_rect_02: 7.215377e+02 0 6.095593e+02 4.485728e+01 0 7.215377e+02 1.728540e+02 2.163791e-01 0 0 1 2.745884e-03
K_03: 1 0 0 0 1 0 0 0 1
"""
VELO_TO_CAM = "calib_time: 15-Mar-2012 11:37:16\nR: 7 8 9 1 2 3 4 5 6\nT: -0.004 -0.07 -0.27\ndelta_f: 0 0\n"
TRACKLETS = "<boost_serialization>\n<item>\n<objectType>Car</objectType>\n<tx>1</tx>\n<tx>2</tx>\n</item>\n"


def kitti_drive(day: Path, frames: range = range(3)) -> Path:
    """A drive as the data come: its day's folder above it."""
    root = day / "2011_09_26_drive_0001_sync"
    lines = "\n".join(f"2011-09-26 13:02:{k:02}.964389445" for k in range(len(frames)))
    for k in frames:
        write(root / f"image_02/data/{k:010d}.png", PNG)
        write(root / f"velodyne_points/data/{k:010d}.bin", np.full((4, 4), k, "<f4").tobytes())
        write(root / f"oxts/data/{k:010d}.txt", f"{49 + k}.0150151 8.43 112.8\n")
    write(
        root / "oxts/dataformat.txt",
        "lat:   latitude of the oxts-unit (deg)\nlon:   longitude (deg)\nalt: altitude (m)\n",
    )
    for place in ("image_02/timestamps.txt", "oxts/timestamps.txt", "velodyne_points/timestamps.txt"):
        write(root / place, lines)
    for which in ("start", "end"):
        write(root / f"velodyne_points/timestamps_{which}.txt", lines)
    return root


def test_kitti_calibration_of_the_day_is_matrices_and_text(tmp_path):
    root = kitti_drive(tmp_path / "2011_09_26")
    write(root.parent / "calib_cam_to_cam.txt", CAM_TO_CAM)
    write(root.parent / "calib_velo_to_cam.txt", VELO_TO_CAM)
    write(root.parent / "calib_imu_to_velo.txt", VELO_TO_CAM)
    report, drive = imported(tmp_path, "kitti", root)
    with drive:
        camera = drive.streams["image_02"].calibration
        assert camera["K"] == [[959.791, 0, 696.0217], [0, 956.9251, 224.1806], [0, 0, 1]]
        assert np.array(camera["P_rect"]).shape == (3, 4)
        assert camera["calib_time"] == "09-Jan-2012 13:57:47"
        assert camera["text"] == CAM_TO_CAM
        assert drive.streams["velodyne"].calibration["R"] == [[7, 8, 9], [1, 2, 3], [4, 5, 6]]
        assert drive.streams["velodyne"].calibration["T"] == [-0.004, -0.07, -0.27]
        assert drive.streams["oxts"].calibration["file"] == "calib_imu_to_velo.txt"
    assert not report.damage
    assert not any("calibration" in note for note in report.notes)


def test_kitti_oxts_fields_are_named_by_dataformat(tmp_path):
    _, drive = imported(tmp_path, "kitti", kitti_drive(tmp_path / "day"))
    with drive:
        samples = drive.read_at_index("oxts", 0).array()
        assert samples.dtype.names == ("timestamp_ns", "lat", "lon", "alt")
        assert samples["lat"][0] == 49.0150151
        assert drive.streams["oxts"].calibration["columns"]["lat"] == "latitude of the oxts-unit (deg)"


def test_kitti_tracklets_are_kept_and_counted(tmp_path):
    root = kitti_drive(tmp_path / "day")
    write(root / "tracklet_labels.xml", TRACKLETS + "</boost_serialization>\n")
    report, drive = imported(tmp_path, "kitti", root)
    with drive:
        assert bytes(drive.read_at_index("import/tracklets", 0).data).decode() == TRACKLETS + "</boost_serialization>\n"
        assert drive.streams["import/tracklets"].calibration["tracklets"] == 1
        assert drive.streams["import/tracklets"].calibration["poses"] == 2
    assert not report.damage
    write(root / "tracklet_labels.xml", TRACKLETS)
    assert "ends early, after 1 tracklets" in imported(tmp_path, "kitti", root)[0].damage.reasons[0]


def test_kitti_frames_that_are_missing_or_have_no_time_are_counted_and_the_gap_is_told(tmp_path):
    root = kitti_drive(tmp_path / "day", range(5))
    (root / "velodyne_points/data/0000000002.bin").unlink()
    write(root / "image_02/data/0000000009.png", PNG)
    write(root / "image_02/data/thumbs.db", b"x")
    write(root / "oxts/data/0000000001.txt", "49.0 8.4\n")
    report, drive = imported(tmp_path, "kitti", root)
    with drive:
        assert drive.streams["velodyne"].calibration["frames"] == [[0, 1], [3, 4]]
        assert drive.read_at_index("velodyne", 2).array()[0, 0] == 3
        assert drive.count("oxts") == 4 or len(drive.read_at_index("oxts", 0).array()) <= 4
    reasons = " | ".join(report.damage.reasons)
    assert "1 frames of timestamps_start.txt have no file, the first is 0000000002" in reasons
    assert "1 files have no timestamp" in reasons
    assert "1 files without a frame number, the first is thumbs.db" in reasons
    assert "2 numbers where 3 are expected" in reasons
    assert report.damage.frames == 4


def test_kitti_sweeps_of_an_extract_drive_are_points_though_written_as_text(tmp_path):
    root = kitti_drive(tmp_path / "day")
    for k in range(3):
        (root / f"velodyne_points/data/{k:010d}.bin").unlink()
        write(root / f"velodyne_points/data/{k:010d}.txt", f"78.331 8.9{k} 2.8 0.13\n-1.5 2 3 0\n" + "9 " * (k // 2))
    report, drive = imported(tmp_path, "kitti", root)
    with drive:
        assert drive.read_at_index("velodyne", 1).array().tolist() == [
            [float(np.float32(number)) for number in (78.331, 8.91, 2.8, 0.13)],
            [-1.5, 2, 3, 0],
        ]
        assert drive.streams["velodyne"].calibration["written_as"] == "txt"
    assert report.damage.frames == 1


def test_of_several_kitti_drives_one_has_to_be_named(tmp_path):
    root = kitti_drive(tmp_path / "day")
    _, drive = imported(tmp_path, "kitti", root.parent)
    drive.close()
    write(root.parent / "2011_09_26_drive_0002_sync/image_00/data/0000000000.png", PNG)
    with pytest.raises(UsageError, match="several drives"):
        imported(tmp_path, "kitti", root.parent)


def comma_segment(root: Path) -> Path:
    for name, shape in (("t", (6,)), ("value", (6, 3))):
        save(root / "processed_log/IMU/gyro" / name, 100 + np.arange(np.prod(shape)).reshape(shape) / 8)
    return root


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.save(file, array)


def test_the_raw_log_of_a_comma_segment_is_kept_in_pieces_and_missing_parts_are_named(tmp_path):
    root = comma_segment(tmp_path / "40")
    raw = np.random.default_rng(1).bytes(PIECE_BYTES + 5)
    write(root / "raw_log.bz2", raw)
    write(root / "preview.png", PNG)
    report, drive = imported(tmp_path, "comma2k19", root)
    with drive:
        pieces = [bytes(drive.read_at_index("import/raw_log", k).data) for k in range(drive.count("import/raw_log"))]
        assert [len(piece) for piece in pieces] == [PIECE_BYTES, 5]
        assert b"".join(pieces) == raw
        assert drive.streams["import/raw_log"].encoding == "capnp.bz2"
        assert bytes(drive.read_at_index("import/preview", 0).data) == PNG
    assert not report.damage
    assert "2 of the 5 parts of a segment are not there: global_pose, video.hevc" in report.notes
    assert any("capnp" in note for note in report.notes)


def test_comma_arrays_that_are_cut_off_or_odd_give_what_they_have(tmp_path):
    root = comma_segment(tmp_path / "40")
    whole = (root / "processed_log/IMU/gyro/value").read_bytes()
    write(root / "processed_log/IMU/gyro/value", whole[:-30])  # two of six rows are not whole
    save(root / "processed_log/CAN/speed/t", np.array([1.0, np.nan, 3.0]))
    save(root / "processed_log/CAN/speed/value", np.array([1, 2, 3], ">i4"))
    save(root / "processed_log/CAN/lost/value", np.arange(4.0))
    save(root / "processed_log/CAN/by_column/t", np.arange(4.0))
    save(root / "processed_log/CAN/by_column/value", np.asfortranarray(np.arange(8.0).reshape(4, 2)))
    write(root / "processed_log/CAN/odd/t", b"no array")
    report, drive = imported(tmp_path, "comma2k19", root)
    with drive:
        times = RecordingTimes(drive)
        assert times.values("imu/gyro").tolist() == (100 + np.arange(12).reshape(4, 3) / 8).tolist()
        assert times.values("can/speed").tolist() == [1, 3]
        assert times.values("can/by_column").tolist() == np.arange(8.0).reshape(4, 2).tolist()
    reasons = " | ".join(report.damage.reasons)
    assert "imu/gyro: 6 times, 6 value, 4 whole records" in reasons
    assert "can/speed: times that are no numbers" in reasons
    assert "can/lost: no times" in reasons
    assert report.damage.frames == 2 + 1 + 4


@MADE_AND_REAL
def test_every_comma_array_of_a_whole_segment_is_equal(tmp_path, at_hand, real):
    segment = whole_comma_segment(at_hand, tmp_path, real)
    report, drive = imported(tmp_path, "comma2k19", segment)
    with drive:
        recorded = RecordingTimes(drive)
        for folder in sorted((segment / "processed_log").glob("*/*")):
            times = np.load(folder / "t")
            order = np.argsort(times, kind="stable")
            values = recorded.values(f"{folder.parent.name.lower()}/{folder.name}")
            for file in folder.iterdir():
                if file.name != "t":
                    found = values[file.name] if values.dtype.names else values
                    expected = np.load(file)[order]
                    assert found.tobytes() == expected.tobytes(), file
    assert not report.damage
    missing = "2 of the 5 parts of a segment are not there: video.hevc, raw_log.bz2"
    assert (missing if real else missing.replace("2 of", "3 of") + ", preview.png") in report.notes


def euroc_sequence(root: Path) -> Path:
    write(root / "mav0/body.yaml", "%YAML:1.0\ncomment: the body\n")
    write(root / "mav0/cam0/data.csv", "#timestamp [ns],filename\n1000,1000.png\n2000, 2000.png\n")
    for name in ("1000.png", "2000.png"):
        write(root / f"mav0/cam0/data/{name}", PNG)
    sensors = {
        "imu0": "#timestamp [ns],w_x [rad s^-1],a_x [m s^-2]\n1000,0.25,9.5\n2000,0.5,9.25\n",
        "leica0": "#timestamp [ns], p_RS_R_x [m], p_RS_R_y [m]\n1500,1,2\n",
        "state_groundtruth_estimate0": "#timestamp, p_RS_R_x [m], q_RS_w []\n1500,1,1\n1600,2,1\n",
    }
    for sensor, table in sensors.items():
        write(root / f"mav0/{sensor}/data.csv", table)
        write(root / f"mav0/{sensor}/sensor.yaml", f"%YAML:1.0\nsensor_type: {sensor}\nrate_hz: 20\n")
    write(root / "mav0/pointcloud0/data.ply", "ply\n")
    write(root / "mav0/pointcloud0/sensor.yaml", "sensor_type: scan\n")
    return root


def test_euroc_ground_truth_scan_and_every_sensors_calibration_come_in(tmp_path):
    report, drive = imported(tmp_path, "euroc", euroc_sequence(tmp_path / "seq"))
    with drive:
        assert not report.damage
        assert drive.read_at_index("state_groundtruth_estimate0", 0).array()["p_RS_R_x"].tolist() == [1, 2]
        assert drive.streams["state_groundtruth_estimate0"].kind == "ground truth"
        for sensor in ("imu0", "leica0", "state_groundtruth_estimate0"):
            assert drive.streams[sensor].calibration["sensor_type"] == sensor
            assert "rate_hz: 20" in drive.streams[sensor].calibration["sensor.yaml"]
        assert bytes(drive.read_at_index("import/pointcloud0", 0).data) == b"ply\n"
        assert drive.streams["import/pointcloud0"].calibration["sensor_type"] == "scan"
        assert bytes(drive.read_at_index("import/body.yaml", 0).data).startswith(b"%YAML:1.0")
        assert sorted(tl.align(drive, to="cam0").matches) == ["imu0", "leica0", "state_groundtruth_estimate0"]


def test_euroc_pictures_without_a_line_and_half_pictures_are_counted(tmp_path):
    root = euroc_sequence(tmp_path / "seq")
    write(root / "mav0/cam0/data/3000.png", PNG)
    write(root / "mav0/cam0/data/2000.png", PNG[:-8])
    write(
        root / "mav0/imu0/data.csv", "#timestamp [ns],w_x [rad s^-1],a_x [m s^-2]\n1000,0.25\n2000,0.5,9.25\nsoon,1,2\n"
    )
    write(root / "mav0/cam1/data.csv", "#timestamp [ns],filename\n")
    report, drive = imported(tmp_path, "euroc", root)
    with drive:
        assert drive.count("cam0") == 1
        assert drive.read_at_index("imu0", 0).array()["a_x"].tolist() == [9.25]
    reasons = " | ".join(report.damage.reasons)
    assert "cam0: 1 files have no time in the list, the first is 3000.png" in reasons
    assert "a PNG that ends early" in reasons
    assert "data.csv line 2: 2 columns where the header has 3" in reasons
    assert report.damage.frames == 4
    assert "cam1 was left out: its data.csv has no row that can be read" in report.notes


def test_tum_associations_comments_and_lists_without_their_folder(tmp_path):
    root = tmp_path / "tum"
    write(root / "rgb.txt", "# color images\n# file: 'x.bag'\n1305031102.175304 rgb/1305031102.175304.png\n")
    write(root / "rgb/1305031102.175304.png", PNG)
    write(root / "rgb/1305031109.5.png", PNG)
    write(root / "depth.txt", "1305031102.160407 depth/1305031102.160407.png\n")
    line = "1305031102.175304 rgb/1305031102.175304.png 1305031102.160407 depth/1305031102.160407.png"
    write(root / "associations.txt", line + "\n")
    write(root / "camera.json", "{}")
    report, drive = imported(tmp_path, "tum", root)
    with drive:
        assert bytes(drive.read_at_index("associations", 0).data).decode() == line
        assert drive.timestamps("associations").tolist() == [1305031102175304000]
        assert drive.streams["rgb"].calibration["comments"] == ["# color images", "# file: 'x.bag'"]
    reasons = " | ".join(report.damage.reasons)
    assert "rgb: 1 files have no time in the list, the first is 1305031109.5.png" in reasons
    assert "depth frame 0" in reasons
    assert report.damage.frames == 2
    assert any("camera.json" in note for note in report.notes)


def test_whole_numbers_that_a_float_would_round_stay_whole(tmp_path):
    big = 1403715273262142977
    write(tmp_path / "rig/sync.csv", f"time,host_ns,value\n1.5,{big},0.5\n2.5,{big + 2},1.5\n3.5,0.25,1\n")
    report, drive = imported(tmp_path, "folder", tmp_path / "rig")
    with drive:
        rows = drive.read_at_index("sync", 0).array()
        rows = np.concatenate([drive.read_at_index("sync", k).array() for k in range(drive.count("sync"))])
        assert rows["host_ns"].tolist() == [big, big + 2]
    assert report.damage.frames == 1


def test_files_of_several_kinds_in_a_folder_become_streams_of_their_own(tmp_path):
    for k in range(3):
        write(tmp_path / f"rig/camera/{1_700_000_000 + k}.jpg", JPEG)
    write(tmp_path / "rig/camera/1700000001.json", '{"label": 1}')
    write(tmp_path / "rig/camera/more/1700000001.jpg", JPEG)
    write(tmp_path / "rig/README", "hello")
    report, drive = imported(tmp_path, "folder", tmp_path / "rig")
    with drive:
        assert drive.count("camera") == 3
        assert json.loads(bytes(drive.read_at_index("camera/json", 0).data)) == {"label": 1}
    assert any("README, camera/more" in note for note in report.notes)


def test_odd_csv_files_do_not_stop_the_others(tmp_path):
    root = tmp_path / "rig"
    write(root / "a.csv", 'time,x,x,text\n1,2,3,"two\nlines"\n2,4,5,"say ""hi"", naß"\n')
    write(root / "b.csv", "x,y\n1,2\n")
    write(root / "c.csv", b"\xef\xbb\xbftime,x\n1,2\n" + b"9" * 30 + b",1\n" + b"1,\x00\n" + b"y" * (2 << 20))
    report, drive = imported(tmp_path, "folder", root)
    with drive:
        rows = [json.loads(bytes(drive.read_at_index("a", k).data)) for k in range(2)]
        assert rows[0] == {"time": "1", "x": "2", "x_2": "3", "text": "two\nlines"}
        assert rows[1]["text"] == 'say "hi", naß'
        assert drive.count("c") == 1
    reasons = " | ".join(report.damage.reasons)
    assert "b.csv: no column is called time" in reasons
    assert "c.csv line 3" in reasons
    assert "c.csv line 4" in reasons
    assert "a line of more than" in reasons


def test_a_frame_of_a_folder_costs_less_than_200_bytes_until_it_is_read(tmp_path):
    peaks = {}
    for count in (500, 3000):
        root = tmp_path / str(count)
        for k in range(count):
            write(root / f"camera/frame_{1_700_000_000_000_000_000 + k}.dat", b"x")
        rows = "".join(f"{k},{k / 8},2.5,3.25,4,5,6,7,8,9,10,11,12,13,14,15,16\n" for k in range(count))
        write(root / "imu.csv", "timestamp_ns," + ",".join(f"a{k}" for k in range(16)) + "\n" + rows)
        write(root / "events.csv", "time,text\n" + "".join(f"{k},{'what happened ' * 30}\n" for k in range(count)))
        tracemalloc.start()
        source = open_source("folder", root)
        frames = sum(isinstance(item, SourceFrame) for item in source.items())
        peaks[frames] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    few, many = sorted(peaks)
    assert (few, many) == (1500, 9000)
    assert (peaks[many] - peaks[few]) / (many - few) < 200


def test_pauses_between_scenes_do_not_widen_the_window(tmp_path):
    times = [scene * 600 + k / 2 for scene in range(4) for k in range(40)]
    write(tmp_path / "rig/labels.csv", "t [s],x\n" + "".join(f"{1_700_000_000 + time},1\n" for time in times))
    report, drive = imported(tmp_path, "folder", tmp_path / "rig")
    drive.close()
    assert 500_000_000 <= report.window.window_ns <= 1_000_000_000


def test_a_folder_that_counts_frames_is_asked_about(tmp_path):
    for k in range(3):
        write(tmp_path / f"rig/camera/frame_{k:06}.jpg", JPEG)
    report, drive = imported(tmp_path, "folder", tmp_path / "rig")
    drive.close()
    assert any("the times of camera are small numbers" in note for note in report.notes)


def test_names_that_meet_and_rows_too_wide_for_a_record_come_in_all_the_same(tmp_path):
    root = tmp_path / "rig"
    write(root / "imu.csv", "time,timestamp_ns,x,x,\n1.5,7,8,9,10\n")
    write(root / "imu/1700000000.jpg", JPEG)
    write(root / "wide.csv", "time," + ",".join(f"c{k}" for k in range(1200)) + "\n1" + ",2" * 1200 + "\n")
    write(root / "IMU.CSV", "time\n1.5\n")
    report, drive = imported(tmp_path, "folder", root)
    with drive:
        assert not report.damage
        assert drive.streams["imu"].encoding == "jpeg"
        samples = drive.read_at_index("imu.csv", 0).array()
        assert samples.dtype.names == ("timestamp_ns", "timestamp_ns_2", "x", "x_2", "column_4")
        assert json.loads(bytes(drive.read_at_index("wide", 0).data))["c1199"] == "2"
        assert json.loads(bytes(drive.read_at_index("IMU", 0).data)) == {"time": "1.5"}


def test_comma_arrays_with_rows_that_no_stream_carries_are_counted(tmp_path):
    root = comma_segment(tmp_path / "40")
    save(root / "processed_log/CAN/huge/t", np.arange(2.0))
    save(root / "processed_log/CAN/huge/value", np.zeros((2, 9000)))
    report, drive = imported(tmp_path, "comma2k19", root)
    with drive:
        assert "imu/gyro" in drive.streams
    assert report.damage.frames == 2
    assert "can/huge" in report.damage.reasons[0]


def test_one_bad_row_at_the_start_does_not_make_a_table_text(tmp_path):
    write(tmp_path / "rig/imu.csv", "time,x\n1,?\n" + "".join(f"{k},{k / 2}\n" for k in range(2, 9)))
    report, drive = imported(tmp_path, "folder", tmp_path / "rig")
    with drive:
        assert RecordingTimes(drive).values("imu")["x"].tolist() == [k / 2 for k in range(2, 9)]
    assert report.damage.reasons == ["imu.csv line 2: could not convert string to float: '?'"]


def test_euroc_pictures_whose_list_is_gone_are_counted(tmp_path):
    root = euroc_sequence(tmp_path / "seq")
    (root / "mav0/cam0/data.csv").unlink()
    report, drive = imported(tmp_path, "euroc", root)
    drive.close()
    assert report.damage.frames == 2
    assert "cam0: 2 files, and no data.csv" in report.damage.reasons[0]
