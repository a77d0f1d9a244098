"""Memory that starts at a multiple of 64, where SIMD and the GPU like it, or at a huge page. The one allocator."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
HUGE_BYTES = 2 << 20  # a huge page, on x86-64 and on ARM with pages of 4 KB
LEAST_HUGE_BYTES = 2 * HUGE_BYTES  # of a buffer in huge pages: numpy asks the system for them from here on
_SMALL_BYTES = 4096  # below, Python's own allocation costs less than numpy's

_byte_at = ctypes.c_char.from_buffer
_address_of = ctypes.addressof


def aligned_buffer(size: int, alignment: int = ALIGNMENT) -> memoryview:
    """`size` writable bytes, not initialised, at an address that is a multiple of `alignment`; the view owns them."""
    room = size + alignment - 1
    raw = memoryview(bytearray(room)) if room < _SMALL_BYTES else np.empty(room, np.uint8).data
    start = -_address_of(_byte_at(raw)) % alignment
    return raw[start : start + size]


def aligned_array(size: int) -> NDArray[np.uint8]:
    """The same as uint8 [size]: pages count once they are written."""
    return np.asarray(aligned_buffer(size))


def huge_buffer(size: int) -> memoryview:
    """At least `size` writable bytes, not initialised, in whole huge pages where the system has them."""
    return aligned_buffer(max(LEAST_HUGE_BYTES, whole_huge_pages(size)), HUGE_BYTES)


def whole_huge_pages(size: int) -> int:
    """`size`, rounded up to whole huge pages."""
    return -(-size // HUGE_BYTES) * HUGE_BYTES
