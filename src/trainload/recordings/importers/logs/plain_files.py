"""Files of a log that were compressed whole, as files that a reader can seek in: unpacked beside the output, then gone.

Memory is a step and Zstandard's window, whatever the file unpacks to.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from trainload.codecs.compression import ZSTD_ERROR, ZSTD_MAGIC, zstd_file
from trainload.recordings.importers.source import Damage

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
        self._losses: list[tuple[str, int]] = []
        self._remove: weakref.finalize[[Path], PlainFiles] | None = None

    def plain(self, path: Path, damage: Damage) -> Path:
        """`path` itself, or of a Zstandard file what it unpacks to; what cannot be unpacked is counted in `damage`."""
        if self._of != path:
            if not head_of(path, len(ZSTD_MAGIC)).startswith(ZSTD_MAGIC):
                return path
            self._make(path, self._unpack)
        for reason, size in self._losses:
            damage.add(reason, size_bytes=size)
        return self._temporary

    def whole_units(self, path: Path, unit: int, damage: Damage) -> Path:
        """As `plain`, without the part of a unit at the end of a file that was cut off; that is counted in `damage`."""
        found = self.plain(path, damage)
        size = found.stat().st_size
        excess = size % unit if size > unit > 0 else 0
        if not excess:
            return found
        if found == path:
            self._make(path, lambda path, out: _copy_start(path, out, size - excess))
        else:
            os.truncate(found, size - excess)
        self._losses.append((f"{path}: cut off inside a unit of {unit:,} bytes", excess))
        damage.add(self._losses[-1][0], size_bytes=excess)
        return self._temporary

    def close(self) -> None:
        """Remove the temporary file."""
        if self._remove is not None:
            self._remove()
        self._of, self._remove = None, None

    def _make(self, path: Path, write: Callable[[Path, BinaryIO], None]) -> None:
        self.close()
        descriptor, name = tempfile.mkstemp(prefix=PREFIX, dir=self._folder)
        self._temporary, self._losses = Path(name), []
        self._remove = weakref.finalize(self, _unlink, self._temporary)
        try:
            with os.fdopen(descriptor, "wb") as out:
                write(path, out)
        except BaseException:
            self.close()
            raise
        self._of = path

    def _unpack(self, path: Path, out: BinaryIO) -> None:
        with path.open("rb") as stored:
            stream = zstd_file(stored)
            try:
                while block := stream.read(_STEP):
                    out.write(block)
            except _BROKEN as error:
                left = path.stat().st_size - stored.tell()
                self._losses.append((f"{path}: unpacked to byte {out.tell():,}, then: {error}", left))


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


def _copy_start(path: Path, out: BinaryIO, size: int) -> None:
    with path.open("rb") as file:
        for place in range(0, size, _STEP):
            out.write(file.read(min(_STEP, size - place)))


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
