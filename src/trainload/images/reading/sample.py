"""One sample of an image set, whatever reader it came from."""

from __future__ import annotations

from typing import NamedTuple


class Sample(NamedTuple):
    """The bytes, the class and the place of one picture.

    data: the encoded picture (JPEG or PNG bytes), or pixels uint8 (h, w, c) for MNIST and CIFAR; a view that keeps its
    buffer alive. label: class number. id: position in the set, 0-based.
    """

    data: memoryview
    label: int
    id: int

    def __repr__(self) -> str:
        size = f"{self.data.nbytes:,} bytes" if self.data.ndim == 1 else " x ".join(map(str, self.data.shape or ()))
        return f"Sample({size}, label={self.label}, id={self.id})"
