"""One picture on its way from its source into a block: the record that levels, workers and blocks hand on."""

from __future__ import annotations

from typing import NamedTuple

from trainload.errors import FormatError


class PackedPicture(NamedTuple):
    """What became of one picture. Where it was refused, `reason` says why and there are no bytes.

    data: the bytes of its sample. width, height: of the sample, in pixels. kinds: flags of Kind. error: why its file
    could not be read, where that is the reason. number: position in the source's list, -1 until the packer gives it.
    """

    data: bytes
    width: int
    height: int
    kinds: int
    reason: str = ""
    error: OSError | FormatError | None = None
    number: int = -1

    @staticmethod
    def refused(kinds: int, reason: str, error: OSError | FormatError | None = None) -> PackedPicture:
        """A picture that no block will hold."""
        return PackedPicture(b"", 0, 0, kinds, reason, error)

    @property
    def is_refused(self) -> bool:
        return bool(self.reason)

    @property
    def area(self) -> int:
        """Pixels."""
        return self.width * self.height
