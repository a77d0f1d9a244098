"""Who writes a working file: a lock on it tells a run that is alive from what a dead one left.

The lock belongs to the open file (flock), so it ends with the process, however that ends. A file system without locks
tells nothing: there a working file that exists counts as left behind.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from trainload.errors import UsageError
from trainload.storage.target import refuse_odd_file

_NO_LOCKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL}
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFT = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not blocking: a FIFO may have taken the name
_MODE = 0o644  # less what the umask takes away
_MOST_TRIES = 100
_MOST_NAME_BYTES = 255


def claim(path: Path, target: Path, *, resume: bool) -> int:
    """An open file of that name, locked: the one that a dead run left (resume), or a new one in its place.

    target: what the file is for, which is what the user knows. Never a symbolic link or a device, never emptied in
    place. Raises UsageError where another process writes it.
    """
    for _ in range(_MOST_TRIES):
        fd, is_new = _new_or_left(path)
        if fd < 0:  # gone between two looks
            continue
        try:
            if not lock(fd):
                raise being_written(target)
            if is_named(fd, path):
                if is_new or resume:
                    return fd
                path.unlink()
        except BaseException:
            release(fd)
            raise
        release(fd)
    raise being_written(target)


def claim_left(path: Path) -> int:
    """As `claim` for a file that must be there already. Raises FileNotFoundError."""
    refuse_odd_file(path)
    fd = os.open(path, _LEFT)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or not lock(fd) or not is_named(fd, path):
            raise being_written(path)
    except BaseException:
        release(fd)
        raise
    return fd


def private_file(path: Path) -> tuple[Path, int]:
    """A new file beside `path` with a name that nobody else has: its path and the open file, locked."""
    beside = private_name(path)
    fd = os.open(beside, _NEW, _MODE)
    lock(fd)
    return beside, fd


def private_name(path: Path) -> Path:
    """A name beside `path` that says whose it is and that nobody else has."""
    ending = f".{secrets.token_hex(4)}.tmp"
    stem = os.fsdecode(os.fsencode(path.name)[: _MOST_NAME_BYTES - len(ending)])
    return path.with_name(stem + ending)


def discard(path: Path) -> None:
    """Remove a working file that nobody writes; nothing where there is none, or where it is another's."""
    with suppress(OSError, UsageError):
        fd = claim_left(path)
        try:
            path.unlink()
        finally:
            release(fd)


def lock(fd: int) -> bool:
    """Lock an open file or folder for this process alone; False where another has it."""
    return _flock(fd, fcntl.LOCK_EX)


def is_being_written(path: str | os.PathLike[str]) -> bool:
    """True where some process holds the lock of the file; False also for what is no file, links included."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _flock(fd, fcntl.LOCK_SH)
    finally:
        release(fd)


def is_named(fd: int, path: Path) -> bool:
    """True where `path` is still the name of the open file."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def release(fd: int) -> None:
    """Give up the lock, also for forked children who share it, and close.

    What a close reports is dropped: it concerns bytes that were not synced, and of these nothing is promised.
    """
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    with suppress(OSError):
        os.close(fd)


class BeingWrittenError(UsageError):
    """Another process has the file, now."""


def being_written(path: str | os.PathLike[str]) -> BeingWrittenError:
    """What to raise where another process has the file."""
    return BeingWrittenError(f"another process is writing this file; wait for its end, or give another name: {path}")


def _new_or_left(path: Path) -> tuple[int, bool]:
    """A new file of that name, or the one that has it; -1 where that went away meanwhile."""
    try:
        return os.open(path, _NEW, _MODE), True
    except FileExistsError:
        refuse_odd_file(path)
    try:
        fd = os.open(path, _LEFT)
    except FileNotFoundError:
        return -1, False
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        release(fd)
        return -1, False
    return fd, False


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True
