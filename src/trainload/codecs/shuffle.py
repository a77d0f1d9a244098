"""The byte shuffle: all first bytes of the elements, then all second bytes, and so on. Floats compress better so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trainload.storage.aligned import aligned_buffer


def shuffle(data: bytes | memoryview, element_size: int) -> bytes:
    """`data` as planes of bytes; what is left over after the last whole element stays at the end as it is."""
    elements = len(data) // element_size
    body = np.frombuffer(data, np.uint8, elements * element_size).reshape(elements, element_size)
    planes = np.empty((element_size, elements), np.uint8)
    for place in range(element_size):
        planes[place] = body[:, place]
    return planes.tobytes() + bytes(data[elements * element_size :])


def unshuffle(
    data: bytes | memoryview, element_size: int, memory: Callable[[int], memoryview] = aligned_buffer
) -> memoryview:
    """The inverse of `shuffle`, in what `memory` gives for the size of `data`."""
    elements = len(data) // element_size
    body_bytes = elements * element_size
    planes = np.frombuffer(data, np.uint8, body_bytes).reshape(element_size, elements)
    whole = memory(len(data))
    body = np.frombuffer(whole, np.uint8, body_bytes).reshape(elements, element_size)
    for place in range(element_size):
        body[:, place] = planes[place]
    whole[body_bytes:] = data[body_bytes:]
    return whole
