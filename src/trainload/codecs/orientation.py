"""EXIF orientation: what a picture says of itself, and the turn that makes it upright. Says what Pillow says.

The orientations are 1 to 8; 1 is upright, and what a picture without or with broken EXIF has.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainload import _core
from trainload.codecs.pillow import open_picture

ORIENTATION_TAG = 0x0112
_SHORT = 3  # the EXIF type of an orientation
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}
_APP1 = 0xE1
_EXIF = b"Exif\0\0"
_XMP_WORD = b"tiff:Orientation"
_MOST_STRAY_BYTES = 1 << 16  # between segments: no more is looked through


def upright(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """The picture, uint8 [h, w, c] or [h, w], turned and mirrored as an orientation asks for."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    rows = slice(None, None, -1 if orientation in (3, 4, 7, 8) else 1)
    columns = slice(None, None, -1 if orientation in (2, 3, 6, 7) else 1)
    return np.ascontiguousarray(pixels[rows, columns])


def orientation_of(picture: Image.Image) -> int:
    """Of a picture that Pillow opened. Pillow turns a TIFF while it loads it: ask after that."""
    try:
        value = picture.getexif().get(ORIENTATION_TAG, 1)
    except Exception:  # broken EXIF does not make a broken picture
        return 1
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def jpeg_orientation(encoded: bytes | memoryview) -> int:
    """Of a JPEG, 1 for other bytes. Costs microseconds where its EXIF is simple or missing, else Pillow is asked."""
    found: list[int | None] = []  # one per EXIF segment
    has_xmp = False
    for marker, start, end in _core.JpegSegments(encoded, _MOST_STRAY_BYTES):
        if marker == _APP1:
            body = bytes(encoded[start + 4 : end])
            if body.startswith(_EXIF):
                found.append(_of_exif(body[len(_EXIF) :]))
            has_xmp |= _XMP_WORD in body
    if len(found) > 1 or None in found:
        return _asked(encoded)
    if found and found[0]:
        return found[0]
    return _asked(encoded) if has_xmp else 1  # XMP counts where EXIF says nothing


def _of_exif(tiff: bytes) -> int | None:
    """The orientation in the first directory, 0 where that has none; None where it is of an unusual form."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return None
    found = []
    try:
        (at,) = struct.unpack_from(order + "I", tiff, 4)
        (count,) = struct.unpack_from(order + "H", tiff, at)
        for n in range(count):
            tag, kind, values, where = struct.unpack_from(order + "HHII", tiff, at + 2 + 12 * n)
            size = _TYPE_BYTES.get(kind, 0) * values
            if size > 4 and where + size > len(tiff):
                return None  # damaged: how much still counts is for Pillow to say
            if tag == ORIENTATION_TAG:
                found.append((kind, values, where & 0xFFFF if order == "<" else where >> 16))
    except struct.error:
        return None
    if not found:
        return 0
    kind, values, value = found[0]
    return value if len(found) == 1 and (kind, values) == (_SHORT, 1) and 1 <= value <= 8 else None


def _asked(encoded: bytes | memoryview) -> int:
    try:
        with open_picture(encoded) as picture:
            return orientation_of(picture)
    except Exception:  # Pillow's parsers raise what they happen to raise; decoding will say what is wrong
        return 1
