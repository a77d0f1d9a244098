"""Whatever is wrong with one file of a data-set folder: the import counts it, keeps the rest, and never fails."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from nuscenes_data import LOG, write_nuscenes
from test_import_folder_parts import comma_segment, euroc_sequence, kitti_drive, save
from test_import_folders import JPEG, PNG, write
from trainload.errors import UsageError
from trainload.recordings.importers.formats import open_source
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.whole_pictures import what_is_missing


def whole_comma(root: Path) -> Path:
    comma_segment(root)
    save(root / "processed_log/CAN/raw_can/t", np.arange(5.0))
    save(root / "processed_log/CAN/raw_can/data", np.array([b"12345678"] * 5))
    save(root / "global_pose/frame_times", np.arange(3.0))
    save(root / "global_pose/frame_positions", np.ones((3, 3)))
    write(root / "video.hevc", b"\0\0\0\1\x26\1\x80abc" + b"\0\0\0\1\2\1\x80de" + b"\0\0\0\1\2\1\x80fg")
    write(root / "raw_log.bz2", b"BZh9")
    return root


def whole_tum(root: Path) -> Path:
    for name in ("1.5", "2.5"):
        write(root / f"rgb/{name}.png", PNG)
    write(root / "rgb.txt", "# color\n1.5 rgb/1.5.png\n2.5 rgb/2.5.png\n")
    write(root / "groundtruth.txt", "1.5 1 2 3 0 0 0 1\n2.5 1 2 3 0 0 0 1\n")
    write(root / "associations.txt", "1.5 rgb/1.5.png 1.5 depth/1.5.png\n")
    return root


def whole_folder(root: Path) -> Path:
    for k in range(3):
        write(root / f"camera/{1_700_000_000 + k}.jpg", JPEG)
    write(root / "imu.csv", "time,x\n1,2\n2,3\n")
    write(root / "events.csv", 'time,what\n1,"a, b"\n2,c\n')
    return root


def whole_kitti(root: Path) -> Path:
    drive = kitti_drive(root)
    write(root / "calib_cam_to_cam.txt", "K_02: 1 0 0 0 1 0 0 0 1\n")
    write(drive / "tracklet_labels.xml", "<x>\n</boost_serialization>\n")
    return root


def whole_nuscenes(root: Path) -> Path:
    write_nuscenes(root)
    return root


WHOLE: dict[str, Callable[[Path], Path]] = {
    "comma2k19": whole_comma,
    "tum": whole_tum,
    "folder": whole_folder,
    "kitti": whole_kitti,
    "euroc": euroc_sequence,
    "nuscenes": whole_nuscenes,
}


def damage_one_file(root: Path, chance: random.Random) -> str:
    """Remove, empty, cut, garble or replace one file; says which and how."""
    file = chance.choice(sorted(path for path in root.rglob("*") if path.is_file()))
    data, how = bytearray(file.read_bytes()), chance.choice(("gone", "empty", "cut", "garbled", "noise", "folder"))
    if how in ("gone", "folder"):
        file.unlink()
        if how == "folder":
            file.mkdir()
        return f"{file} {how}"
    if how == "garbled":
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
    cuts = {"empty": 0, "cut": chance.randrange(len(data)), "noise": 0}
    noise = chance.randbytes(50) if how == "noise" else b""
    file.write_bytes(bytes(data[: cuts.get(how, len(data))]) + noise)
    return f"{file} {how}"


@pytest.mark.parametrize("kind", WHOLE)
def test_one_damaged_file_never_stops_an_import(tmp_path, kind):
    options = {"log": LOG} if kind == "nuscenes" else {}
    whole = WHOLE[kind](tmp_path / "whole")
    report = import_source(open_source(kind, whole, **options), tmp_path / "whole.hfr")
    assert not report.damage, report.damage
    for seed in range(25):
        root = tmp_path / f"{seed}"
        shutil.copytree(whole, root)
        what = damage_one_file(root, random.Random(seed))
        try:
            damaged = import_source(open_source(kind, root, **options), tmp_path / "drive.hfr", overwrite=True)
        except UsageError:
            continue  # what told the format or the drive is gone
        with tl.open_recording(tmp_path / "drive.hfr") as drive:
            assert sum(drive.count(name) for name in drive.streams) == damaged.summary.frames, what
        assert damaged.summary.frames > report.summary.frames // 3 or damaged.damage or damaged.notes, what
        shutil.rmtree(root)


@pytest.mark.parametrize(("extension", "picture"), [(".png", PNG), (".jpg", JPEG)])
def test_a_picture_cut_anywhere_is_told_from_a_whole_one(extension, picture):
    assert what_is_missing(extension, picture) == ""
    assert what_is_missing(extension, picture + b"\0" * 9) == ""
    for size in range(len(picture)):
        assert what_is_missing(extension, picture[:size])
        half_written = picture[:size] + bytes(len(picture) - size)
        assert what_is_missing(extension, half_written) or half_written == picture, size


def test_the_end_marker_of_a_thumbnail_is_not_the_pictures():
    thumbnail = b"\xff\xe1" + (2 + len(JPEG)).to_bytes(2, "big") + JPEG
    with_thumbnail = JPEG[:2] + thumbnail + JPEG[2:]
    assert what_is_missing(".jpg", with_thumbnail) == ""
    assert what_is_missing(".jpg", with_thumbnail[:-2]) == "a JPEG that ends early"
