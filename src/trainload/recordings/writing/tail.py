"""What follows the windows of a recording, written piece by piece, so that no table need be in memory whole."""

from __future__ import annotations

from collections.abc import Iterable

from isal import isal_zlib

from trainload.formats.sections import HEAD_BYTES, section_head_to_bytes
from trainload.storage.atomic import AtomicFile


class Tail:
    """Pieces one after the other in `file`; `end` is the offset where the next one goes."""

    def __init__(self, file: AtomicFile, offset: int) -> None:
        self._file = file
        self.end = offset

    def write(self, pieces: Iterable[bytes]) -> int:
        """Write the pieces; the CRC-32 of all together. Raises OSError."""
        crc = 0
        for piece in pieces:
            self._file.write_at(self.end, piece)
            self.end += len(piece)
            crc = isal_zlib.crc32(piece, crc)
        return crc

    def write_section(self, tag: bytes, body: Iterable[bytes]) -> None:
        """Write one entry of the section list, its head last. Raises OSError."""
        head = self.end
        self.end += HEAD_BYTES
        crc = self.write(body)
        self._file.write_at(head, section_head_to_bytes(tag, self.end - head - HEAD_BYTES, crc))
