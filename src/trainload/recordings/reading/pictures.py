"""A JPEG or PNG payload as an array."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

PICTURE_ENCODINGS = ("jpeg", "jpg", "png")


def decode_picture(data: memoryview) -> NDArray[Any]:
    """uint8 (h, w, 3) RGB, or (h, w) uint8/uint16 where a PNG is gray; JPEG by the core, the rest by Pillow.

    Raises ValueError for bytes that are no whole picture.
    """
    from trainload.codecs.picture import decode_whole  # loads Pillow

    try:
        return decode_whole(data, keep_gray=True)
    except ValueError as error:
        raise ValueError(f"no whole picture: {error}") from error
