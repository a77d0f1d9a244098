"""Which files were compared with their checksum, remembered by file identity: one small file each in the user's cache.

A mark holds the identity of a file that was found good. The one process that holds its lock checks; others wait for it.
A cache that cannot be written is no error: then nothing is remembered, and every process checks for itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainload.storage.location import Url, is_url

SETTLED_NS = 2_000_000_000  # a change soon after another may leave the times of a file as they are


def file_identity(path: str, crc: int) -> str:
    """What changes when a file does: place, device, inode, size and times; with the CRC-32 that its header states.

    Of an open object: its URL, ETag and size.
    """
    if isinstance(path, Url) and path.pin is not None:
        return json.dumps([str(path), 0, 0, path.pin.size, path.pin.etag, 0, crc])
    status = Path(path).stat()
    times = [status.st_mtime_ns, status.st_ctime_ns]
    return json.dumps([os.path.realpath(path), status.st_dev, status.st_ino, status.st_size, *times, crc])


@contextmanager
def mark_of(path: str) -> Iterator[Mark]:
    """The mark of the file at `path`, locked: waits while another process or thread checks the same file."""
    fd = _open_mark(path)
    try:
        yield Mark(fd)
    finally:
        if fd >= 0:
            fcntl.flock(fd, fcntl.LOCK_UN)  # a child forked meanwhile has the descriptor too
            os.close(fd)


class Mark:
    """A locked mark. is_shared: False where there is no cache, so that other processes check the same file too."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.is_shared = fd >= 0

    def holds(self, identity: str) -> bool:
        """Whether the file of this identity was found good."""
        try:
            return self.is_shared and os.pread(self._fd, 1 << 16, 0) == identity.encode()
        except OSError:
            return False

    def write(self, identity: str) -> None:
        """Remember it, unless the file changed so lately that a further change could go unseen."""
        changed_ns = json.loads(identity)[5]
        if not self.is_shared or time.time_ns() - changed_ns < SETTLED_NS:
            return
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, identity.encode(), 0)  # half of it equals no identity
        except OSError:
            pass


def _open_mark(path: str) -> int:
    """The descriptor of the locked mark, -1 where the cache cannot be used."""
    try:
        home = os.environ.get("XDG_CACHE_HOME", "")
        folder = (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "trainload" / "verified"
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(os.fsencode(path if is_url(path) else os.path.realpath(path))).hexdigest()[:32]
        fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, OSError):
            return -1
        raise
    return fd
