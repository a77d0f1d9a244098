"""A picture whose EXIF says so is turned upright before the operations where that is asked for, and only there."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import trainload as tl
from loading_data import write_dts, write_folder
from picture_folders import encoded, picture, read_packed
from trainload.codecs.orientation import ORIENTATION_TAG, jpeg_orientation, orientation_of, upright
from trainload.images.packing.kinds import Kind
from trainload.images.packing.levels import LevelOptions, sample_from_source

OPS = [tl.RandomResizedCrop(24), tl.RandomHorizontalFlip(), tl.ColorJitter(0.4, 0.4, 0.4, 0.1)]
SIDE = 40  # the pictures are square, so that a turned one meets the same crops
KINDS: dict[str, Any] = {
    "JPEG": {"quality": 95},
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {},
    "CMYK": {"quality": 95},
    "progressive": {"progressive": True, "quality": 95},
}


def oriented(value: int, kind: str = "JPEG", size: tuple[int, int] = (SIDE, SIDE)) -> bytes:
    exif = Image.Exif()
    exif[ORIENTATION_TAG] = value
    image = picture(5, size, "CMYK" if kind == "CMYK" else "RGB")
    return encoded(image, kind if kind in ("PNG", "WEBP", "TIFF") else "JPEG", exif=exif, **KINDS[kind])


def upright_by_pillow(data: bytes) -> Image.Image:
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


@pytest.mark.parametrize("value", range(1, 9))
def test_an_array_is_turned_as_pillow_turns_a_picture(value: int) -> None:
    data = oriented(value, "PNG", (9, 6))
    stored = np.asarray(Image.open(io.BytesIO(data)))
    assert np.array_equal(upright(stored, value), np.asarray(upright_by_pillow(data)))
    assert np.array_equal(upright(stored[:, :, 0], value), np.asarray(upright_by_pillow(data))[:, :, 0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_turned_pictures_go_through_the_same_operations_with_the_same_numbers(
    kind: str, packed: bool, tmp_path: Path
) -> None:
    turned = [oriented(value, kind) for value in range(1, 9)]
    straight = [encoded(upright_by_pillow(data), "PNG") for data in turned]
    if packed:
        sets = [write_dts(tmp_path / f"{n}.dts", each, [0] * 8, 3) for n, each in enumerate((turned, straight))]
    else:
        sets = [write_folder(tmp_path / str(n), each, [0] * 8) for n, each in enumerate((turned, straight))]
    found = tl.ImageLoader(sets[0], batch_size=8, ops=OPS, orientation="exif", workers=2)
    expected = tl.ImageLoader(sets[1], batch_size=8, ops=OPS)
    for _ in range(3):  # from the second epoch on by entry points
        for mine, other in zip(found, expected, strict=True):
            assert np.array_equal(mine[0], other[0])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_stored_is_the_default_and_takes_no_notice_of_exif(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(oriented(6, kind))
    stored = np.asarray(Image.open(tmp_path / "a" / "x.jpg").convert("RGB"))
    loader = tl.ImageLoader(tmp_path, batch_size=1, ops=[tl.CenterCrop(SIDE)])
    assert np.array_equal(loader.batch([0])[0][0], stored)


@pytest.mark.parametrize("ops", [None, [tl.CenterCrop((48, 36))]])
def test_the_dataset_takes_it_too_and_keeps_it_when_pickled(ops: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import pickle

    import trainload.torch as tlt

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(oriented(6, size=(48, 36)))
    dataset = tlt.ImageDataset(tmp_path, ops=ops, orientation="exif")
    expected = np.asarray(upright_by_pillow((tmp_path / "a" / "x.jpg").read_bytes()))
    for each in (dataset, pickle.loads(pickle.dumps(dataset))):
        image = each[0][0]
        if ops is None:
            assert np.array_equal(np.asarray(image), expected)
        else:
            assert np.array_equal(image.numpy().transpose(1, 2, 0), expected)


def test_another_word_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(oriented(6))
    with pytest.raises(tl.UsageError, match="orientation is 'upright'; give one of stored, exif"):
        tl.ImageLoader(tmp_path, batch_size=1, ops=[tl.CenterCrop(8)], orientation="upright")  # type: ignore[arg-type]


def exif_segment(tiff: bytes) -> bytes:
    body = b"Exif\0\0" + tiff
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def xmp_segment(text: bytes) -> bytes:
    body = b"http://ns.adobe.com/xap/1.0/\0" + text
    return b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body


def directory(order: str, *entries: bytes) -> bytes:
    head = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IH", 8, len(entries))
    return head + b"".join(entries) + bytes(4)


def entry(order: str, value: int, tag: int = 0x0112, kind: int = 3, count: int = 1) -> bytes:
    return struct.pack(order + "HHIHH", tag, kind, count, value, 0)


SEGMENTS = {
    "none": b"",
    "little-endian": exif_segment(directory("<", entry("<", 6))),
    "big-endian": exif_segment(directory(">", entry(">", 8, tag=0x0110), entry(">", 3))),
    "no orientation": exif_segment(directory("<", entry("<", 6, tag=0x0110))),
    "out of range": exif_segment(directory("<", entry("<", 9))),
    "zero": exif_segment(directory("<", entry("<", 0))),
    "a long": exif_segment(directory("<", struct.pack("<HHII", 0x0112, 4, 1, 6))),
    "a byte": exif_segment(directory("<", entry("<", 6, kind=1))),
    "two values": exif_segment(directory("<", struct.pack("<HHIHH", 0x0112, 3, 2, 6, 7))),
    "twice": exif_segment(directory("<", entry("<", 6), entry("<", 3))),
    "cut": exif_segment(directory("<", entry("<", 6), entry("<", 3))[:-20]),
    "no TIFF": exif_segment(b"nothing at all"),
    "two segments": 2 * exif_segment(directory("<", entry("<", 6))),
    "XMP": xmp_segment(b'<x tiff:Orientation="8"/>'),
    "XMP and EXIF": xmp_segment(b'<x tiff:Orientation="8"/>') + exif_segment(directory("<", entry("<", 6))),
    "EXIF without, XMP with": exif_segment(directory("<")) + xmp_segment(b"<tiff:Orientation>5</tiff:Orientation>"),
}


@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.filterwarnings("ignore")  # of Pillow's EXIF parser
def test_the_quick_look_says_what_pillow_says(name: str) -> None:
    plain = encoded(picture(1))
    data = plain[:2] + SEGMENTS[name] + plain[2:]
    with Image.open(io.BytesIO(data)) as image:
        assert jpeg_orientation(data) == orientation_of(image)


@pytest.mark.filterwarnings("ignore")
def test_damaged_markers_and_exif_give_what_pillow_says_or_upright() -> None:
    rng = np.random.default_rng(3)
    plain = encoded(picture(1))
    for _ in range(600):
        segment = bytearray(SEGMENTS["big-endian"])
        for at in rng.integers(4, len(segment), 2):
            segment[at] = int(rng.integers(0, 256))
        data = plain[:2] + bytes(segment) + plain[2:]
        with Image.open(io.BytesIO(data)) as image:
            assert jpeg_orientation(data) == orientation_of(image)
        assert 1 <= jpeg_orientation(data[: int(rng.integers(0, 80))]) <= 8


def test_a_picture_that_is_made_smaller_to_fit_a_block_keeps_its_orientation(tmp_path: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (200, 150, 3), np.uint8))
    exif = Image.Exif()
    exif[ORIENTATION_TAG] = 6
    sample = sample_from_source(encoded(noise, "PNG", exif=exif), LevelOptions(0, 20_000))
    assert sample.kinds & Kind.OVERSIZE and jpeg_orientation(sample.data) == 6
    assert jpeg_orientation(sample_from_source(encoded(noise, "PNG"), LevelOptions(0, 20_000)).data) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_packing_with_exif_apply_is_loading_with_orientation_exif(kind: str, tmp_path: Path) -> None:
    data = oriented(6, kind, (64, 48))
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / "x.jpg").write_bytes(data)
    tl.pack_images(tmp_path / "src", tmp_path / "1.dts", level=1, exif="apply", jobs=1)
    (sample,) = read_packed(tmp_path / "1.dts").samples
    assert Image.open(io.BytesIO(sample)).size == (48, 64)
    found = tl.ImageLoader(tmp_path / "1.dts", batch_size=1, ops=[tl.CenterCrop((64, 48))], orientation="exif")
    expected = np.asarray(upright_by_pillow(data)).astype(int)
    assert np.abs(found.batch([0])[0][0] - expected).mean() < 12  # turned once, not twice
