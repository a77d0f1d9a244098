"""nuScenes with its tables: poses, boxes, key frames, calibration and CAN bus of one drive, and nothing of another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainload as tl
from nuscenes_data import CHANNELS, LOG, OTHER_LOG, START_US, jpeg, token, write, write_json, write_nuscenes
from trainload.errors import UsageError
from trainload.recordings.importers.formats import open_source
from trainload.recordings.importers.import_source import ImportReport, import_source
from trainload.recordings.importers.rows.json import json_rows
from trainload.recordings.importers.source import Damage


def imported(tmp_path: Path, root: Path, log: str = LOG) -> tuple[ImportReport, Any]:
    report = import_source(open_source("nuscenes", root, log=log), tmp_path / "drive.hfr", overwrite=True)
    return report, tl.open_recording(tmp_path / "drive.hfr")


def payloads(drive: Any, stream: str) -> list[bytes]:
    return [bytes(drive.read_at_index(stream, k).data) for k in range(drive.count(stream))]


def of_drive(tables: dict[str, list[dict[str, Any]]], table: str, log: int = 0) -> list[dict[str, Any]]:
    """The rows of `table` that belong to a drive, by the schema."""
    scenes = {row["token"] for row in tables["scene"] if row["log_token"] == token("log", log)}
    samples = {row["token"] for row in tables["sample"] if row["scene_token"] in scenes}
    return [row for row in tables[table] if row.get("sample_token", row["token"]) in samples]


def test_every_row_of_the_drive_is_kept_and_no_row_of_another(tmp_path):
    tables = write_nuscenes(tmp_path / "nu")
    report, drive = imported(tmp_path, tmp_path / "nu")
    with drive:
        assert not report.damage
        for table in ("sample", "sample_data"):
            expected = sorted(of_drive(tables, table), key=lambda row: row["timestamp"])
            assert [json.loads(frame) for frame in payloads(drive, f"{table}/rows")] == expected
        boxes = [row for frame in payloads(drive, "annotations/rows") for row in json.loads(frame)]
        assert sorted(boxes, key=str) == sorted(of_drive(tables, "sample_annotation"), key=str)
        found: dict[str, list[Any]] = {}
        for frame in map(json.loads, payloads(drive, "import/tables")):
            found.setdefault(frame["table"], []).append(frame["row"])
        assert found["scene"] == tables["scene"][:2]
        assert found["log"] == tables["log"][:1]
        assert found["calibrated_sensor"] == tables["calibrated_sensor"][:4]
        assert {row["token"] for row in found["instance"]} == {token("i", s, "_", b) for s in (0, 1) for b in (0, 1)}
        for whole in ("sensor", "category", "attribute", "visibility", "map"):
            assert found[whole] == tables[whole]
    assert any(
        "belong to other drives were left out: 1 of instance" in note or "instance" in note for note in report.notes
    )
    assert any("left out, no part of drive" in note and "maps (1 files)" in note for note in report.notes)


def test_ego_poses_are_samples_with_their_clock_and_time_source(tmp_path):
    tables = write_nuscenes(tmp_path / "nu")
    report, drive = imported(tmp_path, tmp_path / "nu")
    with drive:
        facts = report.streams["ego_pose"]
        assert (facts["clock"], facts["time_source"]) == ("hardware", "ego_pose.json, timestamp")
        assert facts["frames"] == len(of_drive(tables, "sample_data"))
        pairs = tl.align(drive, to="lidar/top", using={"ego_pose": tl.Interpolate()})
        poses = pairs.values("ego_pose")
        assert poses["rotation_wxyz"].tolist() == [[1, 0, 0, 0]] * len(pairs.times)
        assert (poses["translation"][:, 0] == pairs.times // 1000 % 1000 + 0.1).all()
        assert poses["token"][0].decode()[2:].startswith(CHANNELS)


def test_boxes_are_arrays_one_frame_per_sample(tmp_path):
    write_nuscenes(tmp_path / "nu")
    _, drive = imported(tmp_path, tmp_path / "nu")
    with drive:
        frames = [drive.read_at_index("annotations", k).array() for k in range(drive.count("annotations"))]
        assert [len(frame) for frame in frames] == [0, 1, 2, 0, 1, 2]
        assert drive.timestamps("annotations")[1] == (START_US + 500_000) * 1000
        box, meaning = frames[2][1], drive.streams["annotations"].calibration
        assert box["translation"].tolist() == [2.5, 1, 0]
        assert box["size"].tolist() == [1.9, 4.5, 1.6]
        assert box["rotation_wxyz"].tolist() == [0.6, 0, 0, 0.8]
        assert meaning["categories"][box["category"]] == "vehicle.car"
        assert meaning["visibilities"][box["visibility"]] == "v2"
        names = [name for k, name in enumerate(meaning["attribute_names"]) if int(box["attributes"]) >> k & 1]
        assert names == ["moving", "parked"]
        assert (box["num_lidar_pts"], box["num_radar_pts"]) == (11, 0)
        assert box["instance_token"].decode() == token("i", 0, "_", 1)
        rows = json.loads(payloads(drive, "annotations/rows")[2])
        assert [row["token"] for row in rows] == [name.decode() for name in frames[2]["token"]]


def test_key_frames_are_told_apart_at_the_times_of_their_frames(tmp_path):
    tables = write_nuscenes(tmp_path / "nu")
    _, drive = imported(tmp_path, tmp_path / "nu")
    with drive:
        pairs = tl.align(drive, to="sample_data", using={"lidar/top": tl.Nearest(max="1us")})
        frames = pairs.recording.values("sample_data")
        channels = drive.streams["sample_data"].calibration["channels"]
        keys = {(channels[row["channel"]], row["token"].decode()) for row in frames if row["key_frame"]}
        expected = {
            (row["filename"].split("__")[1], row["token"])
            for row in of_drive(tables, "sample_data")
            if row["is_key_frame"]
        }
        assert keys == expected
        assert frames["width"].tolist() == [1600] * len(frames)


def test_a_calibration_that_all_scenes_share_is_the_streams(tmp_path):
    tables = write_nuscenes(tmp_path / "nu")
    _, drive = imported(tmp_path, tmp_path / "nu")
    with drive:
        calibration = drive.streams["camera/front"].calibration
        assert calibration["translation"] == [1, 2, 3.5]
        assert calibration["tokens"] == [token("cs", scene, "CAM_FRONT") for scene in (0, 1)]
    tables["calibrated_sensor"][2]["translation"] = [9, 9, 9]
    write_json(tmp_path / "nu/v1.0-mini/calibrated_sensor.json", tables["calibrated_sensor"])
    report, drive = imported(tmp_path, tmp_path / "nu")
    with drive:
        both = drive.streams["camera/front"].calibration["calibrated_sensors"]
        assert [row["translation"] for row in both] == [[1, 2, 3.5], [9, 9, 9]]
    assert any("CAM_FRONT has 2 calibrations" in note for note in report.notes)


def test_the_can_bus_of_the_drives_scenes_comes_with_its_clocks(tmp_path):
    write_nuscenes(tmp_path / "nu")
    report, drive = imported(tmp_path, tmp_path / "nu")
    with drive:
        poses = [json.loads(frame) for frame in payloads(drive, "can_bus/pose")]
        assert [pose["utime"] * 1000 for pose in poses] == drive.timestamps("can_bus/pose").tolist()
        assert len(poses) == 10
        assert report.streams["can_bus/pose"]["clock"] == "hardware"
        assert report.streams["can_bus/zoesensors"]["clock"] == "host"
        assert json.loads(payloads(drive, "import/can_bus/route")[1]) == [[1.5, 2.5], [3.5, 4.5]]
        assert len(payloads(drive, "import/can_bus/meta")) == 2


def test_labels_that_a_later_table_names_come_at_the_time_of_their_frame(tmp_path):
    root = tmp_path / "nu"
    tables = write_nuscenes(root)
    lidar = [row for row in tables["sample_data"] if "LIDAR" in row["filename"] and row["is_key_frame"]]
    rows = [
        {"token": r["token"], "sample_data_token": r["token"], "filename": f"lidarseg/{r['token']}.bin"} for r in lidar
    ]
    rows.append({"token": "x", "sample_data_token": lidar[0]["token"], "filename": "../../secret.bin"})
    write_json(root / "v1.0-mini/lidarseg.json", rows)
    for row in rows[:-1]:
        write(root / row["filename"], bytes([1, 2, 3]))
    report, drive = imported(tmp_path, root)
    with drive:
        assert drive.read_at_index("lidarseg", 0).array().tolist() == [1, 2, 3]
        keys = sorted(row["timestamp"] * 1000 for row in lidar if LOG in row["filename"])
        assert drive.timestamps("lidarseg").tolist() == keys
    assert report.damage.frames == 1
    assert not any("lidarseg" in note for note in report.notes if "no part of drive" in note)


def test_what_is_damaged_is_counted_and_named_and_the_rest_comes_in(tmp_path):
    root = tmp_path / "nu"
    tables = write_nuscenes(root)
    cameras = sorted((root / "samples/CAM_FRONT").glob(f"{LOG}*"))
    cameras[0].unlink()
    cameras[1].write_bytes(jpeg()[:-9])
    tables["sample_annotation"][0]["size"] = [1, 2]
    write_json(root / "v1.0-mini/sample_annotation.json", tables["sample_annotation"])
    poses = json.dumps(tables["ego_pose"][:-2], indent=0)
    cut = poses.index(tables["ego_pose"][3]["token"])
    write(root / "v1.0-mini/ego_pose.json", poses[:cut].encode())
    report, drive = imported(tmp_path, root)
    with drive:
        assert drive.count("camera/front") == 10
        assert drive.timestamps(
            "ego_pose",
        ).tolist()
        assert sum(len(drive.read_at_index("annotations", k).array()) for k in range(6)) == 5
    reasons = " | ".join(report.damage.reasons)
    assert "1 files that sample_data.json names are not there" in reasons
    assert "a JPEG that ends early" in reasons
    assert "sample_annotation.json: no row of this table at byte" in reasons
    assert "ego_pose.json: no rows of a JSON array from byte" in reasons
    assert "21 ego poses that sample_data.json names are not in the table" in reasons
    assert report.damage.frames == 1 + 1 + 1 + 21


def test_tables_that_do_not_know_the_drive_are_said_to(tmp_path):
    root = tmp_path / "nu"
    write_nuscenes(root)
    write_json(root / "v1.0-mini/log.json", [])
    report, drive = imported(tmp_path, root)
    with drive:
        assert sorted(drive.streams) == ["camera/front", "lidar/top"]
        assert drive.streams["camera/front"].calibration["translation"] == [1, 2, 3.5]
    assert any("the tables do not know this drive" in note for note in report.notes)
    assert any("can_bus was left out" in note for note in report.notes)


def test_of_several_drives_one_has_to_be_named(tmp_path):
    write_nuscenes(tmp_path / "nu")
    with pytest.raises(UsageError, match=r"n008.*, n015"):
        open_source("nuscenes", tmp_path / "nu")
    report, drive = imported(tmp_path, tmp_path / "nu", OTHER_LOG)
    with drive:
        assert drive.count("camera/front") == 6
        assert len(payloads(drive, "can_bus/pose")) == 5
    assert not report.damage


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=8), st.integers(1, 40), st.booleans(), st.sampled_from([None, 0, 2]))
@settings(deadline=None, max_examples=100)
def test_rows_of_a_json_array_are_found_whatever_the_reading_step(tmp_path_factory, rows, step, plain, indent):
    path = tmp_path_factory.mktemp("rows") / "rows.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=plain), encoding="utf-8", errors="surrogatepass")
    damage = Damage()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainload.recordings.importers.rows.json._STEP", step)
        found = list(json_rows(path, damage))
    if any("\ud800" <= sign <= "\udfff" for sign in path.read_text(encoding="utf-8", errors="surrogatepass")):
        return  # no UTF-8
    data = path.read_bytes()
    assert [row.value for row in found] == rows
    assert [json.loads(data[row.offset : row.offset + row.size]) for row in found] == rows
    assert not damage


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=100)
def test_any_bytes_give_rows_or_damage(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("rows") / "rows.json"
    path.write_bytes(data)
    damage = Damage()
    rows = list(json_rows(path, damage))
    assert rows or damage or b"]" in data


def test_numbers_of_rows_survive(tmp_path):
    write(tmp_path / "rows.json", b"[1, -2.5e3,\n12345678901234567890 ,0.1]")
    assert [row.value for row in json_rows(tmp_path / "rows.json", Damage())] == [1, -2500.0, 12345678901234567890, 0.1]
