"""A file that appears whole under its name, or not at all: written beside the target, synced, renamed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST_BUFFERS = 1024  # IOV_MAX of Linux and macOS


class AtomicFile:
    """A new file under `<path>.tmp` that takes its name on `commit()`.

    Leaving the `with` block without `commit()` removes the .tmp file; a crash leaves it, and never a half file under
    `path`. `keep=True` leaves the .tmp file after an error too, for a writer that can resume.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False, keep: bool = False) -> None:
        self.path = Path(path)
        self.tmp_path = self.path.with_name(self.path.name + ".tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (0 if resume else os.O_TRUNC)
        self._fd = os.open(self.tmp_path, flags, 0o644)
        self._keep = keep

    def write_at(self, offset: int, data: Buffer) -> None:
        """Write all of `data` at `offset`; short writes go on until everything is written or the system refuses."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.pwrite(self._fd, view[done:], offset + done)

    def write_vector_at(self, offset: int, buffers: Sequence[bytes | memoryview]) -> None:
        """Write `buffers` one after the other at `offset`: one system call for 1,024 of them, and no joined copy."""
        for first in range(0, len(buffers), _MOST_BUFFERS):
            batch = buffers[first : first + _MOST_BUFFERS]
            size = sum(map(len, batch))
            done = os.pwritev(self._fd, batch, offset)
            if done < size:
                self.write_at(offset + done, memoryview(b"".join(batch))[done:])
            offset += size

    def truncate(self, size: int) -> None:
        """Set the length of the file."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Ask the disk to hold what was written so far."""
        os.fsync(self._fd)

    def commit(self) -> None:
        """Sync, close, rename to the final name, sync the folder."""
        self.sync()
        os.close(self._fd)
        self._fd = -1
        self.tmp_path.replace(self.path)
        sync_folder(self.path.parent)

    def abort(self) -> None:
        """Close; remove the .tmp file unless `keep` was asked for. After commit() this does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            if not self._keep:
                self.tmp_path.unlink(missing_ok=True)

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable (a rename is only safe once its folder is synced)."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: str | os.PathLike[str], data: Buffer) -> None:
    """Write a small file whole: the old file or the new one, never half of either."""
    with AtomicFile(path) as file:
        file.write_at(0, data)
        file.commit()
