"""Each kind of picture has the fate that docs/spec/dts.md, section 6, states: in file, summary and report."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import trainload as tl
from odd_jpegs import odd_jpegs
from picture_folders import encoded, picture, read_packed
from trainload.images.packing import levels
from trainload.images.packing.jpeg_facts import jpeg_facts
from trainload.images.packing.kinds import Kind, RefusedPictureError
from trainload.images.packing.levels import LevelOptions, sample_from_source

CAPACITY = (16 << 20) - 16_384


def with_orientation(value: int) -> bytes:
    exif = Image.Exif()
    exif[levels.ORIENTATION_TAG] = value  # type: ignore[attr-defined]
    return encoded(picture(3), exif=exif)


def deep_png() -> bytes:
    return encoded(Image.fromarray(np.full((20, 30), 0x8123, np.uint16)), "PNG")


def bomb_png() -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


CASES: list[tuple[str, Callable[[], bytes], Kind]] = [
    ("plain", lambda: encoded(picture(1)), Kind(0)),
    ("png named jpeg", lambda: encoded(picture(1), "PNG"), Kind.NOT_JPEG),
    ("png with alpha", lambda: encoded(picture(1, mode="RGBA"), "PNG"), Kind.NOT_JPEG),
    ("palette gif", lambda: encoded(picture(1, mode="P"), "GIF"), Kind.NOT_JPEG),
    ("16-bit png", deep_png, Kind.NOT_JPEG | Kind.DEEP | Kind.GRAY),
    ("progressive", lambda: encoded(picture(1), progressive=True), Kind.PROGRESSIVE),
    ("gray", lambda: encoded(picture(1, mode="L")), Kind.GRAY),
    ("4:4:4", lambda: encoded(picture(1), subsampling=0), Kind.FULL_CHROMA),
    ("cmyk", lambda: encoded(picture(1, mode="CMYK")), Kind.CMYK),
    ("oriented", lambda: with_orientation(6), Kind.ORIENTED),
]
REFUSED: list[tuple[str, Callable[[], bytes], Kind]] = [
    ("truncated", lambda: encoded(picture(1, (300, 200)))[:2000], Kind.TRUNCATED),
    ("empty", lambda: b"", Kind.CORRUPT),
    ("text", lambda: b"not a picture", Kind.CORRUPT),
    ("bomb", bomb_png, Kind.TOO_LARGE),
]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize(("name", "make", "kind"), CASES, ids=[case[0] for case in CASES])
def test_a_good_picture_is_kept_at_level_0_and_a_plain_jpeg_above(
    name: str, make: Callable[[], bytes], kind: Kind, level: int
) -> None:
    data = make()
    sample = sample_from_source(data, LevelOptions(level, CAPACITY))
    assert Kind(sample.kinds) == kind
    if level == 0:
        assert sample.data == data
        return
    facts = jpeg_facts(sample.data)
    assert facts is not None and facts.is_plain and not facts.is_progressive
    assert (facts.width, facts.height) == (sample.width, sample.height) == Image.open(io.BytesIO(data)).size
    assert Image.open(io.BytesIO(sample.data)).mode == ("L" if kind & Kind.GRAY else "RGB")


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(("name", "make", "kind"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_bad_picture_is_refused_with_its_kind(name: str, make: Callable[[], bytes], kind: Kind, level: int) -> None:
    with pytest.raises(RefusedPictureError) as caught:
        sample_from_source(make(), LevelOptions(level, CAPACITY))
    assert caught.value.kind == kind


def test_cmyk_becomes_the_rgb_that_pillow_makes_of_it() -> None:
    data = encoded(picture(1, mode="CMYK"))
    sample = sample_from_source(data, LevelOptions(1, CAPACITY))
    expected = io.BytesIO()
    Image.open(io.BytesIO(data)).convert("RGB").save(expected, "JPEG", quality=90)
    found = np.asarray(Image.open(io.BytesIO(sample.data)))
    assert np.array_equal(found, np.asarray(Image.open(expected)))


def test_sixteen_bits_are_scaled_to_eight() -> None:
    sample = sample_from_source(deep_png(), LevelOptions(1, CAPACITY))
    assert abs(int(np.asarray(Image.open(io.BytesIO(sample.data))).mean()) - 0x81) <= 1


def test_reference_mode_leaves_cmyk_as_cmyk() -> None:
    sample = sample_from_source(encoded(picture(1, mode="CMYK")), LevelOptions(3, CAPACITY, reference=True))
    assert Image.open(io.BytesIO(sample.data)).mode == "CMYK"


@pytest.mark.parametrize(("exif", "size"), [("ignore", (64, 48)), ("apply", (48, 64))])
def test_orientation_is_ignored_or_applied(exif: str, size: tuple[int, int]) -> None:
    sample = sample_from_source(with_orientation(6), LevelOptions(3, CAPACITY, exif=exif))  # type: ignore[arg-type]
    assert (sample.width, sample.height) == size


def test_damage_that_the_header_does_not_show_is_found_at_level_0_by_decoding() -> None:
    broken = encoded(picture(1)).replace(b"\xff\xdb", b"\xff\xe5")  # no quantisation tables any more
    assert sample_from_source(broken, LevelOptions(0, CAPACITY)).data == broken
    with pytest.raises(RefusedPictureError):
        sample_from_source(broken, LevelOptions(0, CAPACITY, decode=True))
    with pytest.raises(RefusedPictureError):
        sample_from_source(broken, LevelOptions(1, CAPACITY))


@pytest.mark.parametrize(
    ("size", "level", "expected"),
    [
        ((500, 375), 3, (500, 375)),
        ((1000, 440), 2, (600, 400)),
        ((1000, 441), 2, (600, 400)),
        ((900, 600), 3, (600, 400)),
        ((600, 900), 3, (400, 600)),
        ((900, 600), 1, (600, 400)),
        ((2000, 600), 1, (1333, 400)),
        ((500, 401), 1, (498, 400)),
        ((700, 700), 3, (400, 400)),
        ((420, 1000), 3, (400, 600)),
        ((1, 1), 3, (1, 1)),
        ((5000, 3), 3, (600, 3)),
    ],
)
def test_a_level_gives_the_size_that_the_spec_says(
    size: tuple[int, int], level: int, expected: tuple[int, int]
) -> None:
    sample = sample_from_source(encoded(Image.new("RGB", size)), LevelOptions(level, CAPACITY))
    assert (sample.width, sample.height) == expected


def test_a_picture_larger_than_a_block_is_made_to_fit_or_refused() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    data = encoded(Image.fromarray(noise), "PNG")
    sample = sample_from_source(data, LevelOptions(0, 20_000))
    assert sample.kinds & Kind.OVERSIZE and len(sample.data) <= 20_000
    tiny = sample_from_source(data, LevelOptions(0, 2_000))
    assert len(tiny.data) <= 2_000 and tiny.width < 200
    with pytest.raises(RefusedPictureError, match="more than the 20,000 of a block"):
        sample_from_source(data, LevelOptions(0, 20_000, oversize="refuse"))


def test_an_oversize_file_is_packed_once_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "a"
    folder.mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 256, (2500, 2500, 3), np.uint8)
    (folder / "big.png").write_bytes(encoded(Image.fromarray(noise), "PNG", compress_level=0))
    (folder / "small.jpeg").write_bytes(encoded(picture(1)))
    summary = tl.pack_images(tmp_path / "src", tmp_path / "set.dts", level=0, jobs=1).sets[0]
    assert (summary.pictures, summary.kinds["larger than a block"]) == (2, 1)
    with pytest.raises(tl.SampleError, match=r"big\.png"):
        tl.pack_images(tmp_path / "src", tmp_path / "set.dts", level=0, jobs=1, oversize="refuse", overwrite=True)


def test_bad_pictures_stop_the_pack_or_are_counted_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "a"
    folder.mkdir(parents=True)
    for name, make, _ in [*CASES, *REFUSED]:
        (folder / f"{name}.JPEG").write_bytes(make())
    with pytest.raises(tl.SampleError, match=r"a/(truncated|empty|text|bomb)\.JPEG"):
        tl.pack_images(tmp_path / "src", tmp_path / "set.dts", level=3, jobs=1)
    assert not (tmp_path / "set.dts").exists()
    summary = tl.pack_images(tmp_path / "src", tmp_path / "set.dts", level=3, jobs=1, on_error="skip").sets[0]
    assert (summary.pictures, summary.refused) == (len(CASES), len(REFUSED))
    report = json.loads((tmp_path / "set.dts.report.json").read_text())
    lines = {line["source"]: line for line in report["pictures"]}
    assert set(lines) == {f"a/{name}.JPEG" for name, *_ in [*CASES, *REFUSED]} - {"a/plain.JPEG"}
    assert {name for name, line in lines.items() if "refused" in line} == {f"a/{name}.JPEG" for name, *_ in REFUSED}
    assert report["summary"]["kinds"] == summary.kinds and set(report["fates"]) == set(summary.kinds)


def sound(data: bytes) -> bool:
    try:
        Image.open(io.BytesIO(data)).load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False
    return True


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("collected", [False, True], ids=["made", "collected"])
def test_every_odd_jpeg_is_packed_or_named_and_what_is_packed_decodes(
    level: int, collected: bool, at_hand: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "src" / "odd"
    folder.mkdir(parents=True)
    if collected:
        place = at_hand("shared/data/odd-jpegs")
        files = {path.name: path.read_bytes() for path in place.iterdir() if path.name != "MANIFEST.json"}
        manifest = json.loads((place / "MANIFEST.json").read_text())
        good = {entry["file"] for entry in manifest if "pil:ok" in entry.get("tags", [])}
    else:
        files = odd_jpegs()
        good = {name for name, data in files.items() if sound(data)}
    for name, data in files.items():
        (folder / f"{name}.jpg").write_bytes(data)
    summary = tl.pack_images(
        tmp_path / "src", tmp_path / "set.dts", level=level, on_error="skip", check="decode", jobs=1
    ).sets[0]
    assert summary.pictures + summary.refused == len(files)
    packed = read_packed(tmp_path / "set.dts")
    for sample in packed.samples:
        Image.open(io.BytesIO(sample)).load()
    report = json.loads((tmp_path / "set.dts.report.json").read_text())
    refused = {line["source"][4:-4] for line in report["pictures"] if "refused" in line}
    assert good and not good & refused
