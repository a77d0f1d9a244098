"""A picture of any format and mode is the same picture by every way into training, or is refused by every one."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import AvifImagePlugin, Image, WebPImagePlugin, features

import trainload as tl
from picture_folders import encoded, picture
from trainload.codecs import pillow
from trainload.codecs.picture import decode_whole
from trainload.images.packing.kinds import Kind, RefusedPictureError
from trainload.images.packing.levels import LevelOptions, sample_from_source

SIZE = (64, 48)
DEEP = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) * 21
TRUE_GRAY = (DEEP >> 8).astype(np.uint8)


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def deep_png(colour_type: int, channels: int) -> bytes:
    """A PNG of 16 bits: 0 gray, 2 RGB, 4 gray and alpha."""
    rows = np.repeat(DEEP[:, :, None], channels, axis=2).astype(">u2")
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", *SIZE, 16, colour_type, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def tiff(values: NDArray[Any], bits: int, order: str = "<") -> bytes:
    """A TIFF of 16-bit gray in either byte order, or of 12-bit gray, by hand: Pillow writes neither all."""
    height, width = values.shape
    if bits == 12:
        pairs = values.reshape(-1, 2).astype(int)
        data = b"".join(int(a << 12 | b).to_bytes(3, "big") for a, b in pairs)
    else:
        data = values.astype(order + "u2").tobytes()
    rows = [
        (256, 3, width),
        (257, 3, height),
        (258, 3, bits),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8 + 2 + 12 * 9 + 4),
        (277, 3, 1),
        (278, 3, height),
        (279, 4, len(data)),
    ]
    head = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IH", 8, len(rows))
    for tag, kind, value in rows:
        head += struct.pack(order + ("HHIHH" if kind == 3 else "HHII"), tag, kind, 1, value, *([0] * (kind == 3)))
    return head + bytes(4) + data


def palette_with_alpha() -> bytes:
    return encoded(picture(1, SIZE, "P"), "PNG", transparency=bytes(range(256)))


def animation(kind: str) -> bytes:
    others = [picture(n, SIZE) for n in (2, 3)]
    return encoded(picture(1, SIZE), kind, save_all=True, append_images=others, lossless=True)


def rgb_by_pillow(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def gray(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.repeat(values[:, :, None], 3, axis=2)


# name: the file, and its pixels (None: what Pillow's convert("RGB") gives, as for every mode of 8 bits)
CASES: dict[str, tuple[Callable[[], bytes], NDArray[np.uint8] | None]] = {
    "16-bit gray PNG": (lambda: deep_png(0, 1), TRUE_GRAY),
    "16-bit gray and alpha PNG": (lambda: deep_png(4, 2), TRUE_GRAY),
    "16-bit RGB PNG": (lambda: deep_png(2, 3), TRUE_GRAY),
    "16-bit TIFF, little-endian": (lambda: tiff(DEEP, 16), TRUE_GRAY),
    "16-bit TIFF, big-endian": (lambda: tiff(DEEP, 16, ">"), TRUE_GRAY),
    "12-bit TIFF": (lambda: tiff(DEEP >> 4, 12), TRUE_GRAY),
    "16-bit PGM": (lambda: b"P5 64 48 65535\n" + DEEP.astype(">u2").tobytes(), TRUE_GRAY),
    "10-bit PGM": (lambda: b"P5 64 48 1023\n" + (DEEP >> 6).astype(">u2").tobytes(), None),
    "1-bit PNG": (lambda: encoded(picture(1, SIZE, "1"), "PNG"), None),
    "gray PNG": (lambda: encoded(picture(1, SIZE, "L"), "PNG"), None),
    "gray and alpha PNG": (lambda: encoded(picture(1, SIZE, "LA"), "PNG"), None),
    "RGBA PNG": (lambda: encoded(picture(1, SIZE, "RGBA"), "PNG"), None),
    "palette PNG with transparency": (palette_with_alpha, None),
    "CMYK JPEG": (lambda: encoded(picture(1, SIZE, "CMYK")), None),
    "CMYK TIFF": (lambda: encoded(picture(1, SIZE, "CMYK"), "TIFF"), None),
    "compressed TIFF": (lambda: encoded(picture(1, SIZE), "TIFF", compression="tiff_lzw"), None),
    "BMP": (lambda: encoded(picture(1, SIZE), "BMP"), None),
    "PPM": (lambda: encoded(picture(1, SIZE), "PPM"), None),
    "PBM": (lambda: encoded(picture(1, SIZE, "1"), "PPM"), None),
    "animated GIF": (lambda: animation("GIF"), None),
    "TIFF of pages": (lambda: animation("TIFF"), None),
    "animated PNG": (lambda: animation("PNG"), None),
    "animated WebP": (lambda: animation("WEBP"), None),
    "AVIF": (lambda: encoded(picture(1, SIZE), "AVIF"), None),
}
REFUSED = {
    "float TIFF": lambda: encoded(Image.fromarray((DEEP / 65535).astype(np.float32)), "TIFF"),
    "32-bit TIFF": lambda: encoded(Image.fromarray(DEEP.astype(np.int32)), "TIFF"),
}


def made(name: str) -> tuple[bytes, NDArray[np.uint8]]:
    for feature in ("webp", "avif"):
        if feature in name.lower() and not features.check(feature):
            pytest.skip(f"this Pillow was built without {feature}")
    make, expected = CASES[name]
    data = make()
    if name == "10-bit PGM":
        return data, gray((np.round((DEEP >> 6) / 1023 * 65535).astype(int) >> 8).astype(np.uint8))
    return data, rgb_by_pillow(data) if expected is None else gray(expected)


@pytest.mark.parametrize("name", CASES)
def test_a_picture_has_the_same_pixels_by_every_way_into_training(name: str, tmp_path: Path) -> None:
    data, expected = made(name)
    ending = {"JPEG": "jpg"}.get(name.split()[-1], "png")  # content decides, not the name
    (tmp_path / "src" / "a").mkdir(parents=True)
    (tmp_path / "src" / "a" / f"x.{ending}").write_bytes(data)
    tl.pack_images(tmp_path / "src", tmp_path / "0.dts", level=0, jobs=1)
    for ds in (tmp_path / "src", tmp_path / "0.dts"):
        loader = tl.ImageLoader(ds, batch_size=1, ops=[tl.CenterCrop((48, 64))])
        assert np.array_equal(loader.batch([0])[0][0], expected)
    assert np.array_equal(decode_whole(memoryview(data)), expected)
    tl.pack_images(tmp_path / "src", tmp_path / "1.dts", level=1, jobs=1)
    image = tl.ImageLoader(tmp_path / "1.dts", batch_size=1, ops=[tl.CenterCrop((48, 64))]).batch([0])[0][0]
    assert np.abs(image.astype(int).mean(axis=(0, 1)) - expected.mean(axis=(0, 1))).max() < 2  # a JPEG of it
    assert tl.DtsReader(tmp_path / "0.dts").verify(decode=decode_whole, decode_all=True).good


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ops", [None, [tl.CenterCrop((48, 64))]])
def test_the_dataset_gives_the_same_pixels(name: str, ops: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import trainload.torch as tlt

    data, expected = made(name)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(data)
    found = tlt.ImageDataset(tmp_path, ops=ops)[0][0]
    pixels = np.asarray(found) if ops is None else found.numpy().transpose(1, 2, 0)
    assert np.array_equal(pixels, expected)


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("name", REFUSED)
def test_gray_without_a_fixed_range_is_refused_everywhere_with_the_way_out(
    name: str, level: int, tmp_path: Path
) -> None:
    data = REFUSED[name]()
    with pytest.raises(RefusedPictureError, match="scale it to 8 or 16 bits") as caught:
        sample_from_source(data, LevelOptions(level, 1 << 24))
    assert caught.value.kind & Kind.DEEP
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.tif").write_bytes(data)
    loader = tl.ImageLoader(tmp_path, batch_size=1, ops=[tl.Resize((8, 8))])
    with pytest.raises(tl.SampleError, match=r"scale it to 8 or 16 bits and save it again: .*x\.tif"):
        loader.batch([0])


@pytest.mark.parametrize(("head", "what"), [(b"RIFF\0\0\0\0WEBPVP8 ", "WebP"), (b"\0\0\0\x1cftypavif\0\0\0\0", "AVIF")])
def test_a_format_that_this_pillow_lacks_is_named(head: bytes, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pillow.features, "check", lambda name: False)  # type: ignore[attr-defined]
    for plugin in (WebPImagePlugin, AvifImagePlugin):
        monkeypatch.setattr(plugin, "SUPPORTED", False)
    with pytest.raises(ValueError, match=f"this Pillow was built without {what}: pip install"):
        decode_whole(memoryview(head))


def test_a_file_that_is_no_picture_is_called_that_without_an_address_in_memory() -> None:
    with pytest.raises(ValueError, match=r"^no picture that Pillow reads \(JPEG, PNG, WEBP, .*AVIF\)$"):
        decode_whole(memoryview(b"\0\0\0\x1cftypheic and so on"))


@pytest.mark.filterwarnings("ignore")  # of Pillow's parsers
def test_whatever_a_parser_raises_is_one_damaged_picture() -> None:
    rng = np.random.default_rng(0)
    for name in ("16-bit TIFF, big-endian", "compressed TIFF", "animated GIF", "BMP", "PPM", "animated PNG"):
        data = made(name)[0]
        for _ in range(150):
            bad = bytearray(data[: int(rng.integers(1, len(data) + 1))])
            for at in rng.integers(0, min(len(bad), 300), 4):
                bad[at] = int(rng.integers(0, 256))
            try:
                assert decode_whole(memoryview(bytes(bad))).ndim == 3
            except ValueError as error:
                assert str(error)
