"""Memory that starts at a multiple of 64, so that a frame's array starts where SIMD and the GPU like it."""

from __future__ import annotations

import ctypes

import numpy as np

ALIGNMENT = 64
_SMALL_BYTES = 4096  # below, Python's own allocation costs less than numpy's

_byte_at = ctypes.c_char.from_buffer
_address_of = ctypes.addressof


def aligned_buffer(size: int) -> memoryview:
    """`size` writable bytes, not initialised, at an address that is a multiple of 64; the view owns the memory."""
    room = size + ALIGNMENT - 1
    raw = memoryview(bytearray(room)) if room < _SMALL_BYTES else np.empty(room, np.uint8).data
    start = -_address_of(_byte_at(raw)) % ALIGNMENT
    return raw[start : start + size]
