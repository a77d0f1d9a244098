"""The byte shuffle: all first bytes of the elements, then all second bytes, and so on. Floats compress better so."""

from __future__ import annotations

import numpy as np


def shuffle(data: bytes | memoryview, element_size: int) -> bytes:
    """`data` as planes of bytes; what is left over after the last whole element stays at the end as it is."""
    elements = len(data) // element_size
    body = np.frombuffer(data, np.uint8, elements * element_size).reshape(elements, element_size)
    planes = np.empty((element_size, elements), np.uint8)
    for place in range(element_size):
        planes[place] = body[:, place]
    return planes.tobytes() + bytes(data[elements * element_size :])


def unshuffle(data: bytes | memoryview, element_size: int) -> memoryview:
    """The inverse of `shuffle`, in memory of its own."""
    elements = len(data) // element_size
    body_bytes = elements * element_size
    planes = np.frombuffer(data, np.uint8, body_bytes).reshape(element_size, elements)
    whole = np.empty(len(data), np.uint8)
    body = whole[:body_bytes].reshape(elements, element_size)
    for place in range(element_size):
        body[:, place] = planes[place]
    whole[body_bytes:] = np.frombuffer(data, np.uint8)[body_bytes:]
    return whole.data
