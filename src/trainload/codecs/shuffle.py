"""The byte shuffle: all first bytes of the elements, then all second bytes, and so on. Floats compress better so."""

from __future__ import annotations

from trainload import _core
from trainload.memory.aligned import aligned_buffer


def shuffle(data: bytes | memoryview, element_size: int) -> memoryview:
    """`data` as planes of bytes; what is left over after the last whole element stays at the end as it is."""
    planes = aligned_buffer(len(data))
    _core.shuffle(data, planes, element_size)
    return planes


def unshuffle(data: bytes | memoryview, element_size: int) -> memoryview:
    """The inverse of `shuffle`, in memory of its own."""
    whole = aligned_buffer(len(data))
    _core.unshuffle(data, whole, element_size)
    return whole
