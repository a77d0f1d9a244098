"""The levels 0 to 3, one picture at a time: the bytes of a source file in, the bytes of a sample out.

The law is docs/spec/dts.md, sections 4 and 6. Content decides, never the file's name. Pure but for Pillow.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image, UnidentifiedImageError

from trainload.codecs.orientation import ORIENTATION_TAG, jpeg_orientation, orientation_of, upright
from trainload.codecs.pillow import eight_bit, open_picture, unfit_mode
from trainload.images.packing.jpeg_facts import SOI, JpegFacts, jpeg_facts
from trainload.images.packing.kinds import Kind, RefusedPictureError
from trainload.images.packing.packed_picture import PackedPicture

SHORT, LONG = 400, 600
BOUNDARY = {1: 400, 2: 440, 3: 440}
QUALITY = {1: 90, 2: 90, 3: 80}
FIT_QUALITIES = (95, 90, 85, 75)  # tried in turn on a picture that is larger than a block; then it is halved in size
MAX_SOURCE_BYTES = 512 << 20
MAX_SOURCE_PIXELS = 178_956_970  # where Pillow itself speaks of a decompression bomb


@dataclass(frozen=True, slots=True)
class LevelOptions:
    """How pictures become samples.

    capacity: bytes that the largest sample may have. decode: level 0 decodes every picture to find damage that its
    markers do not show.
    """

    level: int
    capacity: int
    reference: bool = False
    exif: Literal["ignore", "apply"] = "ignore"
    oversize: Literal["reencode", "refuse"] = "reencode"
    decode: bool = False


def sample_from_source(data: bytes, options: LevelOptions) -> PackedPicture:
    """The sample of one source file. Raises RefusedPictureError with the kind and the reason."""
    if len(data) > MAX_SOURCE_BYTES:
        raise RefusedPictureError(Kind.TOO_LARGE, f"{len(data):,} bytes are more than {MAX_SOURCE_BYTES:,}")
    facts = jpeg_facts(data)
    if options.level == 0:
        sample = _kept(data, facts, options)
    else:
        sample = _encoded(data, facts, options)
    if len(sample.data) > options.capacity:
        sample = _fitted(sample, options)
    return sample


# ---- level 0 -------------------------------------------------------------------------------------------------------


def _kept(data: bytes, facts: JpegFacts | None, options: LevelOptions) -> PackedPicture:
    """The source bytes. Pillow must know the header, and decode what the markers leave in doubt, or all if asked to."""
    if options.reference:  # the genuine exporter copies the bytes of whatever it finds
        size = (facts.width, facts.height) if facts else (0, 0)
        return PackedPicture(data, *size, _kinds(data, facts, None))
    image = _open(data, facts)
    _require_fit_mode(data, facts, image)
    if options.decode or facts is None or not (facts.has_end and facts.is_plain):
        _load(image, facts)
    return PackedPicture(data, *image.size, _kinds(data, facts, image))


# ---- levels 1 to 3 -------------------------------------------------------------------------------------------------


def _encoded(data: bytes, facts: JpegFacts | None, options: LevelOptions) -> PackedPicture:
    image = _open(data, facts)
    if not options.reference:
        _require_fit_mode(data, facts, image)
    kinds = _kinds(data, facts, image)
    _load(image, facts)
    try:
        if not options.reference:
            orientation = _orientation(data, image) if options.exif == "apply" else 1
            image = _turned(eight_bit(image), orientation)
        image = _resized(image, options.level)
        if image.mode in ("RGBA", "LA", "P"):
            image = image.convert("RGB")
        return PackedPicture(_jpeg(image, QUALITY[options.level], restarts=not options.reference), *image.size, kinds)
    except (OSError, ValueError) as error:
        raise RefusedPictureError(Kind.CORRUPT, f"Pillow cannot make a JPEG of it: {error}") from error


def _resized(image: Image.Image, level: int) -> Image.Image:
    width, height = image.size
    short = height if width > height else width
    if short > BOUNDARY[level]:
        scale = 400.0 / short
        image = image.resize((int(width * scale), int(height * scale)), Image.Resampling.LANCZOS)
    if level == 1:
        return image
    width, height = image.size
    most = (LONG, SHORT) if width > height else (SHORT, LONG)
    final = (min(width, most[0]), min(height, most[1]))
    if final == (width, height):
        return image
    left, top = (width - final[0]) // 2, (height - final[1]) // 2
    return image.crop((left, top, left + final[0], top + final[1]))


def _turned(image: Image.Image, orientation: int) -> Image.Image:
    return image if orientation == 1 else Image.fromarray(upright(np.asarray(image), orientation))


def _require_fit_mode(data: bytes, facts: JpegFacts | None, image: Image.Image) -> None:
    if reason := unfit_mode(image):
        raise RefusedPictureError(Kind(_kinds(data, facts, image)) | Kind.DEEP, reason)


def _jpeg(image: Image.Image, quality: int, *, restarts: bool, orientation: int = 1) -> bytes:
    out = io.BytesIO()
    options: dict[str, Any] = {"restart_marker_rows": 1} if restarts else {}
    if orientation > 1:
        options["exif"] = Image.Exif()
        options["exif"][ORIENTATION_TAG] = orientation
    image.save(out, "JPEG", quality=quality, **options)
    return out.getvalue()


def _fitted(sample: PackedPicture, options: LevelOptions) -> PackedPicture:
    """The same picture as a JPEG of at most `capacity` bytes: lower quality first, then half the size, repeatedly.

    It says of its orientation what the picture said.
    """
    if options.oversize == "refuse" or options.reference:
        reason = f"{len(sample.data):,} bytes are more than the {options.capacity:,} of a block"
        raise RefusedPictureError(Kind.OVERSIZE, reason)
    image = _open(sample.data, None)
    _load(image, None)
    orientation = _orientation(sample.data, image)
    image = eight_bit(image)
    while True:
        for quality in FIT_QUALITIES:
            data = _jpeg(image, quality, restarts=True, orientation=orientation)
            if len(data) <= options.capacity:
                return PackedPicture(data, *image.size, sample.kinds | Kind.OVERSIZE)
        image = image.reduce(2)


# ---- Pillow --------------------------------------------------------------------------------------------------------


def _open(data: bytes, facts: JpegFacts | None) -> Image.Image:
    """Pillow's view of the header, no pixel decoded yet; the pixel count is checked before anything is allocated."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = open_picture(data)
    except Image.DecompressionBombError as error:
        raise RefusedPictureError(Kind.TOO_LARGE, str(error)) from error
    except UnidentifiedImageError as error:
        raise _damage(facts, str(error)) from error
    except Exception as error:  # Pillow's plugins raise what their parsers happen to raise
        raise _damage(facts, f"Pillow cannot read it: {error}") from error
    if image.width * image.height > MAX_SOURCE_PIXELS:
        raise _too_many_pixels(*image.size)
    return image


def _load(image: Image.Image, facts: JpegFacts | None) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image.load()
    except Exception as error:
        raise _damage(facts, f"Pillow cannot decode it: {error}") from error


def _damage(facts: JpegFacts | None, reason: str) -> RefusedPictureError:
    if facts is None:
        return RefusedPictureError(Kind.CORRUPT, reason)
    kind = Kind.CORRUPT if facts.has_end else Kind.TRUNCATED
    if facts.precision > 8:
        kind |= Kind.DEEP
        reason += f" (a JPEG of {facts.precision} bits)"
    return RefusedPictureError(kind, reason)


def _too_many_pixels(width: int, height: int) -> RefusedPictureError:
    return RefusedPictureError(Kind.TOO_LARGE, f"{width:,} x {height:,} pixels are more than {MAX_SOURCE_PIXELS:,}")


def _kinds(data: bytes, facts: JpegFacts | None, image: Image.Image | None) -> int:
    """The flags of a good picture, from its markers, and from Pillow's view of it where there is one."""
    kinds = Kind(0)
    if facts is None:
        kinds |= Kind.NOT_JPEG
        mode = "" if image is None else image.mode
        kinds |= Kind.GRAY if mode in ("L", "LA", "1") or mode.startswith("I") else Kind(0)
        kinds |= Kind.CMYK if mode == "CMYK" else Kind(0)
        sixteen_bit_png = data.startswith(b"\x89PNG") and data[24:25] == b"\x10"
        kinds |= Kind.DEEP if mode.startswith("I") or sixteen_bit_png else Kind(0)
    else:
        components = len(facts.sampling)
        kinds |= Kind.PROGRESSIVE if facts.is_progressive else Kind(0)
        kinds |= Kind.GRAY if components == 1 else Kind(0)
        kinds |= Kind.FULL_CHROMA if facts.is_full_chroma else Kind(0)
        kinds |= Kind.CMYK if components == 4 else Kind(0)
        kinds |= Kind.DEEP if facts.precision > 8 else Kind(0)
    kinds |= Kind.ORIENTED if _orientation(data, image) > 1 else Kind(0)
    return int(kinds)


def _orientation(data: bytes, image: Image.Image | None) -> int:
    """The EXIF orientation, 1 to 8; 1 (upright) where there is none or it cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jpeg_orientation(data) if image is None or data.startswith(SOI) else orientation_of(image)
