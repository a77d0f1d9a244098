"""A whole picture from its bytes: by the core where it can, else by Pillow, which is held to what its bytes can code.

Of sound pictures both make the same pixels. No operations, no random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainload import _core
from trainload.codecs.orientation import jpeg_orientation, orientation_of, upright
from trainload.codecs.pillow import open_picture, rgb_pixels

MOST_PIXELS = 178_956_970  # Pillow's limit, and the core's
PNG_EXPANSION = 1032  # the most that deflate makes of a byte: 258 bytes of two bits
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type
_GRAY_MODES = ("L", "I;16")


def decode_whole(encoded: bytes | memoryview, *, turn: bool = False, keep_gray: bool = False) -> NDArray[Any]:
    """The picture in 8-bit RGB, as the loader has it: uint8 [h, w, 3].

    turn: upright, as its EXIF says, else as it is stored. keep_gray: what Pillow decodes to gray of 8 or 16 bits stays
    so, uint8 or uint16 [h, w].
    Raises ValueError with the reason for a picture that neither decodes whole, or that claims more pixels than its
    bytes can code.
    """
    try:
        pixels = _core.decode_jpeg(np.frombuffer(encoded, np.uint8))
    except ValueError:  # no JPEG, CMYK, 12 bits or damage: Pillow decides which it is
        with open_checked(encoded) as picture:
            return pillow_pixels(picture, turn=turn, keep_gray=keep_gray)
    return upright(pixels, jpeg_orientation(encoded)) if turn else pixels


@contextmanager
def open_checked(encoded: bytes | memoryview, most_pixels: int = MOST_PIXELS) -> Iterator[Image.Image]:
    """Pillow's picture with its claims checked, nothing decoded. What Pillow raises in the block becomes a ValueError.

    most_pixels: a picture that claims more is refused.
    """
    try:
        with open_picture(encoded) as picture:
            _check_claim(picture, bytes(encoded[:26]), len(encoded), most_pixels)
            yield picture
    except MemoryError:
        raise
    except Exception as error:  # Pillow's plugins raise what their parsers happen to raise
        raise ValueError(str(error) or type(error).__name__) from error


def pillow_pixels(picture: Image.Image, *, turn: bool = False, keep_gray: bool = False) -> NDArray[Any]:
    """Decoded by Pillow; arguments as for `decode_whole`. Pillow's own pixels are gone when this returns."""
    pixels = np.asarray(picture) if keep_gray and picture.mode in _GRAY_MODES else rgb_pixels(picture)
    orientation = orientation_of(picture) if turn else 1  # Pillow turns a TIFF while it loads it
    picture.close()
    return upright(pixels, orientation) if turn else pixels


def _check_claim(picture: Image.Image, head: bytes, size_bytes: int, most_pixels: int) -> None:
    """Raise ValueError for a picture that claims more pixels than its set may hold or than its bytes can code.

    picture: opened, not loaded. head: its first 26 bytes or more. size_bytes: of all that is encoded. JPEGs that the
    core can read were checked there.
    """
    claim = f"its header claims {picture.width}x{picture.height} pixels"
    if picture.width * picture.height > most_pixels:
        raise ValueError(f"{claim}, more than any picture of this set may have ({most_pixels})")
    if picture.format != "PNG" or len(head) < 26:
        return
    bits = head[24] * _PNG_CHANNELS.get(head[25], 1)
    if picture.width * picture.height * bits // 8 > PNG_EXPANSION * size_bytes:
        raise ValueError(f"{claim}, which {size_bytes} bytes cannot code")
