"""Files of a log that were compressed whole, as files that a reader can seek in: unpacked beside the output, then gone.

Memory is a step and Zstandard's window, whatever the file unpacks to.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import BinaryIO

from trainload.codecs.compression import ZSTD_ERROR, ZSTD_MAGIC, zstd_file
from trainload.importers.source import Damage

PREFIX = "trainload-unpacked-"
_STEP = 128 << 10  # as a block of Zstandard: what comes before a damaged block is not lost with it
_BROKEN = (ZSTD_ERROR, EOFError)


class PlainFiles:
    """One plain file at a time; the temporary file goes with the next one asked for, `close`, or the object.

    folder: where temporary files go; None is the system's place for them.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = folder
        self._of: Path | None = None
        self._temporary = Path()
        self._lost = Damage()
        self._remove: weakref.finalize[[Path], PlainFiles] | None = None

    def plain(self, path: Path, damage: Damage) -> Path:
        """`path` itself, or of a Zstandard file what it unpacks to; what cannot be unpacked is counted in `damage`."""
        if not head_of(path, len(ZSTD_MAGIC)).startswith(ZSTD_MAGIC):
            return path
        if self._of != path:
            self._unpack(path)
        for reason in self._lost.reasons:
            damage.add(reason, size_bytes=self._lost.bytes)
        return self._temporary

    def close(self) -> None:
        """Remove the temporary file."""
        if self._remove is not None:
            self._remove()
        self._of, self._remove = None, None

    def _unpack(self, path: Path) -> None:
        self.close()
        descriptor, name = tempfile.mkstemp(prefix=PREFIX, dir=self._folder)
        self._temporary, self._lost = Path(name), Damage()
        self._remove = weakref.finalize(self, _unlink, self._temporary)
        try:
            with os.fdopen(descriptor, "wb") as out, path.open("rb") as stored:
                self._copy(stored, out, path)
        except BaseException:
            self.close()
            raise
        self._of = path

    def _copy(self, stored: BinaryIO, out: BinaryIO, path: Path) -> None:
        stream = zstd_file(stored)
        try:
            while block := stream.read(_STEP):
                out.write(block)
        except _BROKEN as error:
            left = path.stat().st_size - stored.tell()
            self._lost.add(f"{path}: unpacked to byte {out.tell():,}, then: {error}", size_bytes=left)


def plain_head(path: Path, size: int) -> bytes:
    """The first bytes of the file, or of what it unpacks to; fewer where there are no more."""
    if not head_of(path, len(ZSTD_MAGIC)).startswith(ZSTD_MAGIC):
        return head_of(path, size)
    with path.open("rb") as stored:
        try:
            return bytes(zstd_file(stored).read(size))
        except _BROKEN:
            return b""


def head_of(path: Path, size: int) -> bytes:
    """The first bytes of the file as it is stored."""
    with path.open("rb") as file:
        return file.read(size)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
