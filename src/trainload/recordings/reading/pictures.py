"""A JPEG or PNG payload as an array: by the core where it can, else by Pillow."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

PICTURE_ENCODINGS = ("jpeg", "jpg", "png")


def decode_picture(data: memoryview) -> NDArray[np.uint8]:
    """uint8 (h, w, 3) RGB, or (h, w) uint8/uint16 where a PNG is gray; JPEG by the core, the rest by Pillow.

    Raises ValueError for bytes that are no whole picture.
    """
    if bytes(data[:2]) == b"\xff\xd8":
        picture = _decode_by_core(data)
        if picture is not None:
            return picture
    return _decode_by_pillow(data)


def _decode_by_core(data: memoryview) -> NDArray[np.uint8] | None:
    from trainload import _core

    decode: Callable[[memoryview], NDArray[np.uint8]] | None = getattr(_core, "decode_jpeg", None)
    if decode is None:
        return None
    try:
        return decode(data)
    except (ValueError, RuntimeError):
        return None  # CMYK and damage: Pillow decides which it is


def _decode_by_pillow(data: memoryview) -> NDArray[np.uint8]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            keep = image.mode in ("L", "I;16", "RGB")
            return np.asarray(image if keep else image.convert("RGB"))
    except (OSError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        raise ValueError(f"no whole picture: {error}") from error
