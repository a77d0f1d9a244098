"""`trainload info` shows every field of all it is given: files, volumes, patterns, folders of sets, recordings."""

from __future__ import annotations

import dataclasses
import json
import zlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trainload as tl
from drive_data import write_drive
from picture_folders import class_folders, read_packed
from trainload.cli import info  # noqa: F401 (registers its verb)
from trainload.cli.app import app
from trainload.images.format.dts import HEADER_BYTES_USED, DtsHeader
from trainload.images.reading.picture_crcs import picture_crcs
from trainload.sets_any import find_all_sets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Class folders; in sets/ a set in one file, one in two volumes, CIFAR-100."""
    root = tmp_path_factory.mktemp("info")
    class_folders(root / "pictures")
    tl.pack_images(root / "pictures", root / "sets" / "one.dts", level=3, jobs=1)
    tl.pack_images(root / "pictures", root / "sets" / "two.dts", level=0, volumes=2, jobs=1, split="val")
    (root / "cifar").mkdir()
    for name, count in (("train.bin", 9), ("test.bin", 4)):
        (root / "cifar" / name).write_bytes(b"".join(bytes([0, n]) + bytes([n]) * 3072 for n in range(count)))
    tl.pack_arrays("cifar100", root / "cifar", root / "sets")
    return root


def run(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["info", *map(str, arguments)], env={"COLUMNS": "400"})
    return done.exit_code, done.stdout


def test_every_field_of_the_header_is_shown(folder: Path) -> None:
    path = folder / "sets" / "one.dts"
    header = DtsHeader.from_bytes(path.read_bytes()[:HEADER_BYTES_USED], file_size=path.stat().st_size)
    facts = json.loads(run("--json", path)[1])
    (found,) = facts["headers"]
    assert list(found)[:3] == ["magic", "version", "dataset_type"] and list(found)[-1] == "crc_code"
    assert set(found) == {"magic", "version"} | {field.name for field in dataclasses.fields(DtsHeader)}
    assert (found["val_set_prep"], found["total_bytes"]) == (0, header.total_bytes)
    assert found["crc_code"] == f"{header.crc_code:08x}"
    shown = run(path)[1]
    assert all(f"header {name}" in shown for name in found)


def test_fields_that_differ_between_volumes_are_shown_for_each(folder: Path) -> None:
    code, shown = run(folder / "sets" / "two-*.dts")
    rows = dict(line.strip().split(maxsplit=2)[1:] for line in shown.splitlines() if line.startswith("header "))
    assert (code, rows["volume_id"], rows["num_volumes"]) == (0, "0, 1", "2")


@pytest.mark.parametrize("arguments", ["{0}/sets", "{0}/sets/*.dts"])
def test_a_folder_of_sets_and_a_pattern_give_each_set(arguments: str, folder: Path) -> None:
    code, out = run("--json", arguments.format(folder))
    sets = json.loads(out)["sets"]
    assert code == 0 and [each["samples"] for each in sets] == [4, 9, 12, 12]
    assert [each["format"] for each in sets] == ["DTS array", "DTS array", "DTS pictures", "DTS pictures"]
    shown = run(arguments.format(folder))[1]
    assert shown.count("header magic") == 4 and "two-0-of-2.dts" in shown


def test_sets_recordings_and_class_folders_may_be_asked_together(folder: Path, tmp_path: Path) -> None:
    drive = write_drive(tmp_path / "drive.hfr").path
    paths = [str(folder / "pictures"), str(drive), str(folder / "sets" / "one.dts")]
    assert find_all_sets(paths) == [[path] for path in paths]
    sets = json.loads(run("--json", *paths)[1])["sets"]
    assert [each.get("kind") or each["format"] for each in sets] == ["class folders", "HFRM", "DTS pictures"]
    assert sets[1]["headers"][0]["frame_count"] == sets[1]["frames"]
    assert "header flags" in run(drive)[1]


def test_class_folders_with_a_set_beside_them_stay_class_folders(folder: Path, tmp_path: Path) -> None:
    class_folders(tmp_path, classes=1)
    (tmp_path / "set.dts").symlink_to(folder / "sets" / "one.dts")
    assert find_all_sets(tmp_path) == [[str(tmp_path)]]


def test_a_damaged_set_among_others_hides_none_of_them(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.dts").write_bytes(b".DTS and nothing more")
    (tmp_path / "b.dts").symlink_to(folder / "sets" / "one.dts")
    code, out = run("--json", tmp_path)
    bad, good = json.loads(out)["sets"]
    assert (code, good["samples"]) == (1, 12)
    assert "the header must be whole" in bad["error"]
    assert run(tmp_path)[0] == 1


# ---- --crc ----------------------------------------------------------------------------------------------------------


def test_crc_lists_every_picture(folder: Path) -> None:
    path = folder / "sets" / "one.dts"
    code, out = run("--crc", path)
    packed = read_packed(path)
    head, *lines = out.splitlines()
    assert (code, head.partition(":")[0]) == (0, "# id block label size crc")
    assert lines == [
        f"{n} 0 {label} {len(sample)} {zlib.crc32(sample):08x}"
        for n, (label, sample) in enumerate(zip(packed.labels, packed.samples))
    ]


def test_crc_of_volumes_arrays_and_folders_numbers_as_the_set_does(folder: Path) -> None:
    for name, block in (("sets/two-*.dts", "01"), ("sets/cifar100_test.dts", "0"), ("pictures", "-")):
        rows = [line.split() for line in run("--crc", folder / name)[1].splitlines()[1:]]
        with tl.open_images(folder / name) as ds:
            assert [int(row[0]) for row in rows] == list(range(len(ds)))
            assert [int(row[2]) for row in rows] == ds.labels.tolist()
            assert [int(row[4], 16) for row in rows] == [zlib.crc32(ds[n].data.tobytes()) for n in range(len(ds))]
        assert {row[1] for row in rows} == set(block)


def test_crc_is_of_the_bytes_as_they_are_now(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "sets" / "one.dts").read_bytes())
    with tl.DtsReader(folder / "sets" / "one.dts") as ds:
        before = [each.crc for each in picture_crcs(ds)]
        data[(16 << 20) + int(ds.offset_in_block[3]) + 100] ^= 1
    (tmp_path / "changed.dts").write_bytes(data)
    with tl.open_images(tmp_path / "changed.dts") as ds:
        assert [n for n, each in enumerate(picture_crcs(ds)) if each.crc != before[n]] == [3]


def test_crc_as_json_is_a_line_for_each_picture_of_all_sets(folder: Path) -> None:
    code, out = run("--crc", "--json", folder / "sets")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, len(rows)) == (0, 4 + 9 + 12 + 12)
    assert list(rows[-1]) == ["id", "block", "label", "size", "crc", "path"]


def test_a_recording_has_no_pictures_to_list(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["info", "--crc", str(write_drive(tmp_path / "drive.hfr").path)])
    assert isinstance(done.exception, tl.UsageError) and "has no pictures to list" in str(done.exception)
