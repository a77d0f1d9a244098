"""How large a picture may be, how many large ones may be in memory at once, and what a picture takes. No pixels here.

Most pictures are decoded on all threads at once, each within `beside_bytes`. Larger ones take turns: all that are being
decoded at a time fit into `together_bytes`, and one that fits in there by no means has it for itself.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from PIL import Image

from trainload import _core
from trainload.codecs.picture import MOST_PIXELS

BESIDE_PIXELS = 2 << 20  # pictures up to this size need not take turns, whatever their kind
LEAST_BESIDE_BYTES = 4 << 20
BYTES_PER_PIXEL = 12  # of the costliest kind: progressive CMYK has coefficients (8) and pixels (4) at once
_RGB_BYTES = 3


@dataclass(frozen=True)
class PictureLimits:
    """What a decoder holds pictures to. most_pixels: more is refused. beside_bytes, together_bytes: as above."""

    most_pixels: int = MOST_PIXELS
    beside_bytes: int = sys.maxsize
    together_bytes: int = 0

    @staticmethod
    def of_set(largest_pixels: int, most_pixels: int | None) -> PictureLimits:
        """For a set whose largest picture has `largest_pixels`, as far as is known; `most_pixels` where it is law."""
        beside = max(LEAST_BESIDE_BYTES, BYTES_PER_PIXEL * min(largest_pixels, BESIDE_PIXELS))
        together = BYTES_PER_PIXEL * largest_pixels if largest_pixels > BESIDE_PIXELS else 0
        return PictureLimits(MOST_PIXELS if most_pixels is None else most_pixels, beside, together)


NO_LIMITS = PictureLimits()


class Turns:
    """Lets large pictures into memory as long as there is room for them together. For all threads; survives a fork."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._start()

    def _start(self) -> None:
        self._pid, self._used_bytes, self._changed = os.getpid(), 0, threading.Condition()

    @contextmanager
    def wait_for(self, size_bytes: int) -> Iterator[None]:
        """Room for one picture; waits until others have left, unless there are none.

        On leaving, what was freed goes back to the system: else each thread would keep a large picture's memory.
        """
        if self._pid != os.getpid():  # whoever held the lock is not here
            self._start()
        with self._changed:
            while self._used_bytes and self._used_bytes + size_bytes > self._size_bytes:
                self._changed.wait()
            self._used_bytes += size_bytes
        try:
            yield
        finally:
            _core.give_back_freed_memory()
            with self._changed:
                self._used_bytes -= size_bytes
                self._changed.notify_all()


def pillow_bytes(picture: Image.Image, size_bytes: int, *, turned: bool) -> int:
    """What decoding by Pillow takes, all copies together: pixels, a JPEG's coefficients, the RGB array, the bytes.

    turned: one more array, which EXIF may ask for.
    """
    coefficients = 8 if picture.format == "JPEG" else 0
    return picture.width * picture.height * (4 + max((1 + turned) * _RGB_BYTES, coefficients)) + size_bytes
