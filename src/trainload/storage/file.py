"""A local file as a Source: positional reads only, never mmap, never a shared file position."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from trainload.errors import FormatError, UsageError
from trainload.formats.rules import FILE_END
from trainload.memory.aligned import aligned_buffer
from trainload.storage.read_ahead import FAR_BYTES, STEP_BYTES, announce, read_ahead_bytes, read_at_once

if TYPE_CHECKING:
    from typing_extensions import Buffer

# What a process lacks whatever file it opens; every other error is that of the file at hand.
_OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EBADF)
CHUNK_BYTES = 4 << 20  # one system call reads at most this much


def is_of_one_file(error: OSError) -> bool:
    """True where another file may well be read all the same: this one is gone, forbidden, or on bad sectors."""
    return error.errno is not None and error.errno not in _OF_THE_PROCESS


class FileSource:
    """An open file: `read_at` and `readinto_at` give exactly what was asked for, or raise. Safe for many threads.

    path: absolute, so that a copy, which opens the file again, finds it wherever the process works then. Pickles as it.
    Raises OSError for what has no places: a folder, a pipe, a socket, a device. It is not waited for.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = str(Path(path).absolute())  # an OSError names the path as it was given
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait for a writer
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, not a file", os.fspath(path))
        self._size = status.st_size
        self._reads_far_ahead = read_ahead_bytes(status.st_dev) >= FAR_BYTES

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._size

    def identity(self) -> Hashable:
        """Equal for open files that are one file of the system in one state; nothing is read."""
        if self._fd < 0:
            return self
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def read_at(self, offset: int, size: int) -> bytes:
        self._check_range(offset, size)
        if size <= CHUNK_BYTES:
            try:
                data = os.pread(self._fd, size, offset)
            except OSError as error:
                error.filename = self._path
                raise
            if len(data) == size:
                return data
        buffer = bytearray(size)
        self.readinto_at(offset, buffer)
        return bytes(buffer)

    def readinto_at(self, offset: int, buffer: Buffer) -> None:
        view = memoryview(buffer).cast("B")
        self._check_range(offset, len(view))
        done, step = 0, CHUNK_BYTES
        if len(view) > STEP_BYTES and self._reads_far_ahead:
            done = read_at_once(self._fd, view[:STEP_BYTES], offset)
            step = CHUNK_BYTES if done == STEP_BYTES else STEP_BYTES
        try:
            while done < len(view):
                count = os.preadv(self._fd, [view[done : done + step]], offset + done)
                if count == 0:
                    raise self._too_short(offset, len(view), offset + done)
                done += count
        except OSError as error:
            error.filename = self._path
            raise

    def read_many(self, stretches: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, size). All are announced first: a fifth of the time where the cache is cold."""
        for offset, size in stretches:
            self.will_need(offset, size)
        return [self.read_at(offset, size) for offset, size in stretches]

    def hold(self, offset: int, size: int) -> None:
        """Nothing: the system's cache does that."""

    def will_need(self, offset: int, size: int) -> None:
        if size < FAR_BYTES or not self._reads_far_ahead:
            announce(self._fd, offset, size)

    def read_aligned_at(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` in fresh memory that starts at a multiple of 64 and is the caller's."""
        if offset < 0 or size < 0 or offset + size > self._size or self._fd < 0:
            self._check_range(offset, size)
        buffer = aligned_buffer(size)
        if size > CHUNK_BYTES or os.preadv(self._fd, (buffer,), offset) != size:
            self.readinto_at(offset, buffer)
        return buffer

    def clone(self) -> FileSource:
        """The file opened once more."""
        return FileSource(self._path)

    def take_traffic(self) -> None:
        """A file is on no network."""

    def close(self) -> None:
        fd, self._fd = self._fd, -1  # first: a close that fails has given the number back all the same
        if fd >= 0:
            os.close(fd)

    def _check_range(self, offset: int, size: int) -> None:
        if self._fd < 0:
            raise UsageError(f"the file was closed: {self._path}")
        if offset < 0 or size < 0 or offset + size > self._size:
            raise self._too_short(offset, size, self._size)

    def _too_short(self, offset: int, size: int, end: int) -> FormatError:
        return FILE_END.broken(
            field=f"{size:,} bytes",
            offset=offset,
            found=f"the end of the file at {end:,}",
            expected=f"at least {offset + size:,} bytes",
            path=self._path,
        )

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0 and os is not None:  # modules may go first when the interpreter ends
            self.close()

    def __reduce__(self) -> tuple[type[FileSource], tuple[str]]:
        return FileSource, (self._path,)
