"""One function decodes a whole picture for both products, upright or as it is stored: Pillow's pixels."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from pillow_oracle import smooth_picture
from trainload.codecs.orientation import ORIENTATION_TAG
from trainload.codecs.picture import decode_whole
from trainload.recordings.reading.pictures import decode_picture

RGB = Image.fromarray(smooth_picture(40, 56))


def encoded(picture: Image.Image, kind: str, orientation: int = 1) -> bytes:
    exif, made = Image.Exif(), io.BytesIO()
    exif[ORIENTATION_TAG] = orientation
    picture.save(made, kind, exif=exif)
    return made.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("mode", "kind"), [("RGB", "JPEG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("RGB", "PNG")])
def test_a_picture_is_turned_as_its_exif_says_only_where_that_is_asked_for(
    mode: str, kind: str, orientation: int
) -> None:
    data = encoded(RGB.convert(mode), kind, orientation)
    stored = Image.open(io.BytesIO(data))
    assert np.array_equal(decode_whole(data), np.asarray(stored.convert("RGB")))
    turned = ImageOps.exif_transpose(stored)
    assert np.array_equal(decode_whole(data, turn=True), np.asarray(turned.convert("RGB")))


def test_gray_of_pillow_stays_gray_only_where_that_is_asked_for() -> None:
    deep = Image.fromarray(np.arange(40 * 56, dtype=np.uint16).reshape(40, 56) * 29)
    for picture in (RGB.convert("L"), deep):
        data = encoded(picture, "PNG")
        kept = decode_picture(memoryview(data))
        assert np.array_equal(kept, np.asarray(picture))
        assert kept.dtype == np.asarray(picture).dtype
        assert decode_whole(data).shape == (40, 56, 3)
    assert decode_picture(memoryview(encoded(RGB.convert("L"), "JPEG"))).shape == (40, 56, 3)


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xd8", b"no picture", encoded(RGB, "JPEG")[:900], encoded(RGB, "PNG")[:900]]
)
def test_what_is_no_whole_picture_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_whole(data)
    with pytest.raises(ValueError, match=r"no whole picture: ."):
        decode_picture(memoryview(data))
