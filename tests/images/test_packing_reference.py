"""`--reference` gives the genuine exporter's bytes; without it the pixels are the same."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL
import pytest
from PIL import Image

import trainload as tl
from picture_folders import class_folders, encoded, picture, read_packed


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("known", "source"),
    [
        pytest.param("packed.json", "pictures", id="ten-pictures"),
        pytest.param(
            "shared/spec/conformance.json",
            "shared/data/imagenet-sample/train",
            id="imagenet-sample",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_reference_mode_reproduces_the_genuine_file(
    level: int, known: str, source: str, at_hand: Callable[[str], Path], tmp_path: Path
) -> None:
    values = json.loads(at_hand(known).read_text())
    if level and values["pillow"] != PIL.__version__:
        pytest.skip(f"levels 1 to 3 depend on Pillow {values['pillow']}, this is {PIL.__version__}")
    out = tmp_path / "set.dts"
    tl.pack_images(at_hand(source), out, level=level, reference=True, min_blocks=values.get("min_blocks", 6), jobs=2)
    [expected] = [facts for name, facts in values["files"].items() if name.endswith(f"_lv{level}.dts")]
    assert out.stat().st_size == expected["bytes"]
    assert hashlib.sha256(out.read_bytes()).hexdigest() == expected["sha256"]


def test_restart_markers_change_no_pixel(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src", size=(700, 500), classes=2, each=2)
    tl.pack_images(source, tmp_path / "ours.dts", level=3, jobs=1)
    tl.pack_images(source, tmp_path / "genuine.dts", level=3, reference=True, jobs=1)
    ours, genuine = read_packed(tmp_path / "ours.dts"), read_packed(tmp_path / "genuine.dts")
    assert sorted(map(pixels, ours.samples)) == sorted(map(pixels, genuine.samples))
    assert all(b"\xff\xdd\x00\x04" in sample for sample in ours.samples)  # DRI
    assert not any(b"\xff\xdd\x00\x04" in sample for sample in genuine.samples)


def test_a_restart_marker_ends_every_row_of_mcus(tmp_path: Path) -> None:
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / "x.jpeg").write_bytes(encoded(picture(1, (300, 200))))
    tl.pack_images(tmp_path / "src", tmp_path / "set.dts", level=2, jobs=1)
    sample = read_packed(tmp_path / "set.dts").samples[0]
    scan = sample[sample.index(b"\xff\xda") :]
    assert sum(scan.count(bytes([0xFF, 0xD0 + n])) for n in range(8)) == -(-200 // 16) - 1
    dri = sample.index(b"\xff\xdd\x00\x04") + 4
    assert int.from_bytes(sample[dri : dri + 2], "big") == -(-300 // 16)


def test_the_header_region_of_a_genuine_file_holds_144_bytes_and_zeros(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src")
    tl.pack_images(source, tmp_path / "set.dts", level=0, reference=True, jobs=1)
    data = (tmp_path / "set.dts").read_bytes()
    assert not any(data[144 : 16 << 20])
    assert read_packed(tmp_path / "set.dts").u32(104) == 31_667_328


def test_reference_mode_takes_only_names_that_end_in_jpeg(tmp_path: Path) -> None:
    source = class_folders(tmp_path / "src", classes=1, each=2)
    (source / "class0" / "extra.jpg").write_bytes(encoded(picture(7)))
    assert tl.pack_images(source, tmp_path / "genuine.dts", level=0, reference=True, jobs=1).pictures == 2
    assert tl.pack_images(source, tmp_path / "ours.dts", level=0, jobs=1).pictures == 3


def test_small_pictures_are_refused_in_reference_mode_and_grow_the_block_header_outside(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "a"
    folder.mkdir(parents=True)
    data = encoded(Image.new("L", (8, 8)))
    for n in range(700):
        (folder / f"{n}.jpeg").write_bytes(data)
    with pytest.raises(tl.UsageError, match="340 pictures"):
        tl.pack_images(tmp_path / "src", tmp_path / "genuine.dts", level=0, reference=True, jobs=1)
    assert not list(tmp_path.glob("genuine.dts*"))
    summary = tl.pack_images(tmp_path / "src", tmp_path / "ours.dts", level=0, jobs=1).sets[0]
    packed = read_packed(tmp_path / "ours.dts")
    assert (packed.u32(96), packed.blocks) == (12_288, [700])
    assert summary.genuine_readable
    assert len(tl.open(str(tmp_path / "ours.dts"))) == 700


def pixels(sample: bytes) -> bytes:
    return np.asarray(Image.open(io.BytesIO(sample))).tobytes()
