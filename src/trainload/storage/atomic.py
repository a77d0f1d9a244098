"""A file that appears whole under its name, or not at all: written beside the target, synced, renamed.

Two ways to be written. `keep=False`: under a name of its own, removed after an error; of two writers the last one wins,
whole. `keep=True`: as `<path>.tmp`, which outlives an error for whoever can go on with it; a second writer is refused.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from trainload.storage.claim import claim, is_named, private_file, release
from trainload.storage.target import refuse_odd_file

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST_BUFFERS = 1024  # IOV_MAX of Linux and macOS


class AtomicFile:
    """A new file at `tmp_path` that takes its name on `commit()`; locked until then.

    Leaving the `with` block without `commit()` removes it unless `keep`; a crash leaves it, and never a half file under
    `path`. resume: (with keep) go on in the file that is there. A failed sync is final: the system may have dropped
    what it could not write and call it written, so no later sync or commit succeeds.
    Raises UsageError where another process writes the file, and where `path` is a folder, a link or a device.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool = False, keep: bool = False) -> None:
        self.path = Path(path)
        self.keeps = keep
        self.published = False  # it has its name
        refuse_odd_file(self.path)
        if keep:
            self.tmp_path = tmp_name(self.path)
            self._fd = claim(self.tmp_path, self.path, resume=resume)
        else:
            self.tmp_path, self._fd = private_file(self.path)
        self._failed_sync: OSError | None = None

    def write_at(self, offset: int, data: Buffer) -> None:
        """Write all of `data` at `offset`; short writes go on until everything is written or the system refuses."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += os.pwrite(self._fd, view[done:], offset + done)
        except OSError as error:
            raise self._named(error) from error

    def write_vector_at(self, offset: int, buffers: Sequence[bytes | memoryview]) -> None:
        """Write `buffers` one after the other at `offset`: one system call for 1,024 of them, and no joined copy."""
        for first in range(0, len(buffers), _MOST_BUFFERS):
            batch = buffers[first : first + _MOST_BUFFERS]
            size = sum(map(len, batch))
            try:
                done = os.pwritev(self._fd, batch, offset)
            except OSError as error:
                raise self._named(error) from error
            if done < size:
                self.write_at(offset + done, memoryview(b"".join(batch))[done:])
            offset += size

    def truncate(self, size: int) -> None:
        """Set the length of the file."""
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise self._named(error) from error

    def stream(self) -> IO[bytes]:
        """The file for a library that writes to file objects, from its start; closing it leaves this open."""
        return os.fdopen(self._fd, "wb", closefd=False)

    def sync(self) -> None:
        """Ask the disk to hold what was written so far. After a failure every later call fails too."""
        if self._failed_sync is not None:
            text = "an earlier sync of this file failed, so nobody knows what of it the disk holds"
            raise self._named(OSError(self._failed_sync.errno, text)) from self._failed_sync
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._failed_sync = error
            raise self._named(error) from error

    def commit(self) -> None:
        """Sync, rename to the final name, sync the folder, close."""
        self.sync()
        refuse_odd_file(self.path)
        if not is_named(self._fd, self.tmp_path):
            text = "the unfinished file was removed or replaced by another process"
            raise OSError(errno.ESTALE, text, os.fspath(self.tmp_path))
        self.tmp_path.replace(self.path)
        self.published = True
        try:
            sync_folder(self.path.parent)
        finally:
            self._close()

    def abort(self) -> None:
        """Close; remove the .tmp file unless `keep` was asked for. After commit() this does nothing."""
        if self._fd >= 0:
            try:
                if not self.keeps and is_named(self._fd, self.tmp_path):
                    self.tmp_path.unlink(missing_ok=True)
            finally:
                self._close()

    def remove(self) -> None:
        """Close and remove the .tmp file, whatever `keep` says. After commit() this does nothing."""
        self.keeps = False
        self.abort()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        release(fd)

    def _named(self, error: OSError) -> OSError:
        """The same error with a path in it: of the .tmp file where that stays, else of the file asked for."""
        return OSError(error.errno, error.strerror or str(error), os.fspath(self.tmp_path if self.keeps else self.path))

    def __enter__(self) -> AtomicFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
        if isinstance(error, OSError) and not self.keeps:
            name_path(error, self.tmp_path, self.path)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0 and release is not None:  # modules may go first when the interpreter ends
            self._close()


def tmp_name(path: Path) -> Path:
    """What a file that can be gone on with is called until it is whole."""
    return path.with_name(path.name + ".tmp")


def name_path(error: OSError, working: Path, path: Path) -> None:
    """Have an error that names no file, or one in `working`, which is gone, name `path`, which was asked for."""
    named = error.filename
    gone = isinstance(named, str | bytes) and Path(os.fsdecode(named)).is_relative_to(working)
    if error.errno is not None and (named is None or gone):
        error.filename = os.fspath(path)


def sync_folder(folder: Path) -> None:
    """Make the folder's names durable (a rename is only safe once its folder is synced)."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(folder)) from error
    finally:
        release(fd)
