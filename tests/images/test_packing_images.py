"""What `pack_images` and `trainload pack images` write: headers, volumes, the extension, the summary."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import uuid
import zlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import trainload as tl
from picture_folders import BLOCK, class_folders, encoded, picture, read_packed
from trainload.cli.app import app
from trainload.cli.pack import pack_app  # noqa: F401  (registers the verb)
from trainload.codecs.compression import zstd_decompress
from trainload.images.packing.block_cutting import MAX_BLOCK_HEADER_SIZE, block_header_size_for
from trainload.images.packing.progress import PackProgress


def extension_of(data: bytes) -> dict[str, bytes]:
    """The sections by the letter of docs/spec/dts.md, section 8."""
    magic, version, zero, size = struct.unpack_from("<4sHHQ", data, 256)
    assert (magic, version, zero) == (b"DTSX", 1, 0)
    sections, at = {}, 272
    while at < 272 + size:
        tag, length, crc = struct.unpack_from("<4sQI", data, at)
        body = data[at + 16 : at + 16 + length]
        assert zlib.crc32(body) == crc
        if tag == b"HCRC":
            assert struct.unpack("<I", body)[0] == zlib.crc32(data[:at]) and at + 16 + length == 272 + size
        sections[tag.decode()] = body
        at += 16 + length
    return sections


@pytest.mark.parametrize("level", [0, 2])
def test_the_header_says_what_is_in_the_file(level: int, tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src", classes=3, each=5)
    tl.pack_images(source, tmp_path / "set.dts", level=level, split="val", jobs=1)
    packed = read_packed(tmp_path / "set.dts")
    source_bytes = sum(path.stat().st_size for path in source.rglob("*.JPEG"))
    fields = {offset: packed.u32(offset) for offset in range(16, 112, 4)}
    assert packed.data[:16] == b".DTS\x03\0\0\0IMAGENET"
    assert (fields[16], fields[20], fields[28], fields[52]) == (0, level, 3, 15)
    assert (fields[56], fields[60], fields[64], fields[68]) == (1, 0, 1, 1)
    assert struct.unpack_from("<Q", packed.data, 72)[0] == len(packed.data) == 2 * BLOCK
    assert fields[104] == 96 * 48 and fields[108] == 15
    assert struct.unpack_from("<f", packed.data, 112)[0] == np.float32(len(packed.data) / source_bytes)
    assert packed.u32(140) == zlib.crc32(packed.data[BLOCK:])


def test_the_extension_carries_names_paths_crcs_and_parameters(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src", classes=3, each=5)
    tl.pack_images(source, tmp_path / "set.dts", level=3, jobs=1)
    packed = read_packed(tmp_path / "set.dts")
    sections = extension_of(packed.data)
    assert list(sections)[-1] == "HCRC"
    assert zstd_decompress(sections["CLSS"], 1 << 20) == b"class0\0class1\0class2\0"
    paths = zstd_decompress(sections["PATH"], 1 << 20).decode().split("\0")[:-1]
    assert sorted(paths) == sorted(str(path.relative_to(source)) for path in source.rglob("*.JPEG"))
    assert [int(path[5]) for path in paths] == packed.labels
    assert struct.unpack("<2I", sections["BLKS"]) == (15, zlib.crc32(packed.data[BLOCK:]))
    assert np.frombuffer(sections["PCRC"], "<u4").tolist() == [zlib.crc32(sample) for sample in packed.samples]
    parameters = json.loads(sections["PARM"])
    assert parameters["tool"].startswith("trainload ") and parameters["restart_marker_rows"] == 1
    assert uuid.UUID(bytes=sections["UUID"]).version == 5


def test_equal_packs_have_equal_uuids_and_other_parameters_another(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src")
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        tl.pack_images(source, tmp_path / f"{name}.dts", level=3, jobs=1, seed=seed)
    uuids = [extension_of((tmp_path / f"{name}.dts").read_bytes())["UUID"] for name in "abc"]
    assert uuids[0] == uuids[1] != uuids[2]


@pytest.mark.parametrize("level", [0, 3])
def test_volumes_make_one_set_with_every_picture_once(level: int, tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src", classes=4, each=5)
    summary = tl.pack_images(source, tmp_path / "set.dts", level=level, volumes=3, jobs=1).sets[0]
    assert [Path(path).name for path in summary.paths] == [f"set-{k}-of-3.dts" for k in range(3)]
    volumes = [read_packed(Path(path)) for path in summary.paths]
    assert [volume.u32(60) for volume in volumes] == [0, 1, 2]
    assert {volume.u32(56) for volume in volumes} == {3}
    assert {volume.u32(64) for volume in volumes} == {sum(volume.u32(68) for volume in volumes)}
    assert [volume.u32(52) for volume in volumes] == [7, 7, 6]
    assert len({extension_of(volume.data)["UUID"] for volume in volumes}) == 1
    whole = tl.open_images(str(tmp_path / "set-*-of-3.dts"))
    assert len(whole) == 20 and sorted(whole.labels.tolist()) == sorted([0, 1, 2, 3] * 5)
    assert {whole.source(n) for n in range(20)} == {str(p.relative_to(source)) for p in source.rglob("*.JPEG")}


def test_a_packed_set_passes_verify(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src")
    for level in (0, 1, 3):
        tl.pack_images(source, tmp_path / f"{level}.dts", level=level, jobs=1)
        assert not tl.DtsReader(tmp_path / f"{level}.dts").verify().findings


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"level": 4}, "levels 0 to 3"),
        ({"level": 0, "exif": "apply"}, "keeps the source bytes"),
        ({"min_blocks": 6}, "reference arrangement"),
        ({"level": 0, "reference": True, "min_blocks": 0}, "reference"),
        ({"reference": True, "volumes": 2}, "one volume"),
        ({"volumes": 0}, "volumes"),
        ({"volumes": 13}, "cannot fill"),
        ({"jobs": 0}, "at least one"),
    ],
)
def test_what_cannot_be_done_is_said(switches: dict[str, object], message: str, tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src")
    with pytest.raises(tl.UsageError, match=message):
        tl.pack_images(source, tmp_path / "set.dts", **switches)  # type: ignore[arg-type]
    assert not list(tmp_path.glob("set*"))


def test_a_set_of_refused_pictures_only_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / "x.jpeg").write_bytes(b"no")
    for level in (0, 3):
        with pytest.raises(tl.UsageError, match="every picture was refused"):
            tl.pack_images(tmp_path / "src", tmp_path / "set.dts", level=level, jobs=1, on_error="skip")
    assert not list(tmp_path.glob("set*"))


def test_paths_that_find_no_room_are_left_out_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = class_folders(tmp_path / "src")
    tl.pack_images(source, tmp_path / "with.dts", level=3, jobs=1)
    sections = extension_of((tmp_path / "with.dts").read_bytes())
    room = 272 + sum(16 + len(body) for tag, body in sections.items() if tag != "PATH")
    monkeypatch.setattr("trainload.images.packing.writer.dts.IMAGE_HEADER_BYTES", room)
    monkeypatch.setattr(
        "trainload.images.packing.writer.Volume.total_bytes", property(lambda v: BLOCK * (1 + len(v.records)))
    )
    summary = tl.pack_images(source, tmp_path / "without.dts", level=3, jobs=1).sets[0]
    assert not summary.paths_stored
    assert list(extension_of((tmp_path / "without.dts").read_bytes())) == [tag for tag in sections if tag != "PATH"]


@pytest.mark.parametrize(
    ("sizes", "least", "expected"),
    [
        ([], 4096, 4096),
        ([110_000] * 1000, 4096, 4096),
        ([110_000] * 1000, 16384, 16384),
        ([20_000] * 9000, 4096, 16384),
        ([64] * 340, 4096, 4096),
        ([64] * 341, 4096, 8192),
        ([64] * 10**6, 4096, MAX_BLOCK_HEADER_SIZE),
    ],
)
def test_the_block_header_grows_in_steps_as_the_set_needs(sizes: list[int], least: int, expected: int) -> None:
    assert block_header_size_for(sizes, least) == expected


def test_progress_counts_every_picture_and_ends_at_the_total(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src", classes=2, each=70)
    seen: list[PackProgress] = []
    tl.pack_images(source, tmp_path / "set.dts", level=0, jobs=1, progress=seen.append)
    assert [each.done for each in seen] == [64, 128, 140]
    assert {(each.total, each.resumed) for each in seen} == {(140, 0)}


def test_the_command_prints_the_summary_and_the_same_facts_as_json(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src")
    (source / "class0" / "g.jpeg").write_bytes(encoded(picture(1, mode="L")))
    command = ["pack", "images", str(source), str(tmp_path / "set.dts"), "--level", "1", "--jobs", "1"]
    text = CliRunner().invoke(app, command)
    assert text.exit_code == 0, text.output
    assert "13 pictures of 3 classes at level 1" in text.stdout and "1 gray: stays gray" in text.stdout
    facts = json.loads(CliRunner().invoke(app, [*command, "--overwrite", "--json"]).stdout)["sets"][0]
    assert (facts["pictures"], facts["classes"], facts["kinds"]) == (13, 3, {"gray": 1})
    assert json.loads((tmp_path / "set.dts.report.json").read_text())["summary"]["pictures"] == 13


def test_importing_trainload_does_not_load_pillow() -> None:
    code = "import sys, trainload; sys.exit('PIL' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
