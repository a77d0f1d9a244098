"""Pictures by Pillow, the same for packer, loader, verify and dataset: which formats are tried, and 8 bits of any mode.

Of an animation or a file of several pages it is the first picture. Knows no sets and no operations.
"""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import (  # each makes its format known: else the first one that is missing loads all of Pillow's plugins
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
    features,
)

from trainload.formats.picture_kinds import PICTURE_FORMATS

_PLUGINS = (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    JpegImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
_AVIF_BRANDS = (b"avif", b"avis")
_BITS_PER_SAMPLE = 258  # a TIFF tag
_STRIP_PIXELS = 1 << 18


def open_picture(encoded: bytes | memoryview) -> Image.Image:
    """Pillow's view of the header; no pixel is decoded yet.

    Raises UnidentifiedImageError, with the way out, for what is none of PICTURE_FORMATS, else what Pillow's parsers
    happen to raise.
    """
    try:
        return Image.open(io.BytesIO(encoded), formats=PICTURE_FORMATS)
    except UnidentifiedImageError:
        missing = missing_decoder(bytes(encoded[:16])) if len(encoded) else "an empty file"
        known = ", ".join(PICTURE_FORMATS)
        raise UnidentifiedImageError(missing or f"no picture that Pillow reads ({known})") from None


def missing_decoder(head: bytes) -> str:
    """What to install where these first bytes are those of a picture that this Pillow was built without; else ""."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP" and not features.check("webp"):
        return "a WebP picture, and this Pillow was built without WebP: pip install --upgrade Pillow, or convert it"
    if head[4:8] == b"ftyp" and head[8:12] in _AVIF_BRANDS and not features.check("avif"):
        return "an AVIF picture, and this Pillow was built without AVIF: pip install --upgrade Pillow, or convert it"
    return ""


def unfit_mode(picture: Image.Image) -> str:
    """Why a picture has no 8-bit form that everyone would agree on; "" where it has one. Looks at the header alone."""
    if picture.mode == "F" or (picture.mode == "I" and picture.format != "PPM"):
        kind = "floating point" if picture.mode == "F" else "32-bit or signed"
        return f"{kind} gray has no fixed black and white: scale it to 8 or 16 bits and save it again"
    return ""


def eight_bit(picture: Image.Image) -> Image.Image:
    """The same picture in mode RGB or L. Raises ValueError for a mode that has no 8-bit form.

    RGB and L stay. Gray of 9 to 16 bits keeps its upper 8 bits, as Pillow does with 16-bit colours. Everything else is
    Pillow's conversion: transparency is left out (the colours under it show), palettes are looked up, CMYK is
    multiplied out.
    """
    return _converted(picture, _load(picture))


def rgb_pixels(picture: Image.Image) -> NDArray[np.uint8]:
    """As `eight_bit`, in RGB: uint8 [h, w, 3]. Converted a strip at a time, so that no second picture is made."""
    bits = _load(picture)
    width, height = picture.size
    rows = max(1, _STRIP_PIXELS // max(1, width))
    pixels = np.empty((height, width, 3), np.uint8)
    for top in range(0, height, rows):
        strip = picture.crop((0, top, width, min(height, top + rows)))
        pixels[top : top + rows] = np.asarray(_converted(strip, bits).convert("RGB"))
    return pixels


def _load(picture: Image.Image) -> int:
    """Decode it; bits of a value where it is deep gray. Raises ValueError for a mode that has no 8-bit form."""
    reason = unfit_mode(picture)
    if reason:
        raise ValueError(reason)
    picture.load()
    return _gray_bits(picture)


def _converted(picture: Image.Image, gray_bits: int) -> Image.Image:
    if picture.mode in ("RGB", "L"):
        return picture
    if picture.mode.startswith("I"):
        return Image.fromarray((np.asarray(picture) >> (gray_bits - 8)).astype(np.uint8))
    if picture.mode == "1":
        return picture.convert("L")
    picture.info.pop("transparency", None)  # Pillow would look for a colour to stand for it, and warn
    return picture.convert("RGB")


def _gray_bits(picture: Image.Image) -> int:
    """Bits of a deep gray picture: 16 but in a TIFF of 12, whose values Pillow leaves as they are."""
    tags = getattr(picture, "tag_v2", None)
    bits = (tags or {}).get(_BITS_PER_SAMPLE, (16,))[0]
    return int(bits) if 8 < bits < 16 else 16
