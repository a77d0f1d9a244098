"""Blocks of remote objects kept on this machine's disk, shared by all its processes (docs/remote.md).

Nothing is kept in memory and nobody is told: an entry is a file that says what it is and what its checksum is, which
blocks are kept follows from a hash, and who downloads one holds a lock that ends with him.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import secrets
import struct
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.storage.cache_folder import (
    ABOUT,
    VERSION,
    cache_key,
    cached_objects,
    evict,
    kept_bytes,
    refuse_others,
    room,
)

BLOCK_BYTES = 16 << 20  # entry k holds the bytes from k x BLOCK_BYTES of the object: a block of a DTS file is one
STRIPES = 256
MAGIC = b"TLCACHE1"
_TRAILER = struct.Struct("<8s32sQQI4x")  # magic, key, block, bytes, CRC-32
TRAILER_BYTES = _TRAILER.size
KEPT_FREE = 0.05  # of the disk, always
AUTO_SHARE = 0.75  # of what is free, that "auto" takes at most
STALE_SECONDS = 600  # a temporary file so old has no writer
LONGEST_WAIT = 70.0  # for another process's download, which may take 60 s
_NO_CACHE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENFILE)

_in_use: set[str] = set()  # keys of this process: not evicted by it
_held: set[int] = set()  # descriptors of locks: a forked child closes them, or they would outlive a killed parent
_warned: set[str] = set()  # folders that take nothing


def _close_held() -> None:
    for fd in _held:
        with suppress(OSError):
            os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_close_held)


def block_ranks(key: str, blocks: int) -> NDArray[np.int64]:
    """The place of each block in the order in which they are admitted, int64 [blocks]: the same in every process."""
    seed = int(key[:16], 16)
    mixed = np.arange(blocks, dtype=np.uint64) + np.uint64(seed)  # splitmix64
    mixed += np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    ranks = np.empty(blocks, np.int64)
    ranks[np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable")] = np.arange(blocks)
    return ranks


class BlockCache:
    """The entries of one state of one object. Safe for many threads and processes; a copy of it is the same cache.

    folder: of the whole cache. budget_bytes: what this object may take; None for all of it, at most its share of
    AUTO_SHARE of what is free, where the objects of its set are `shares`. Raises UsageError for a folder of
    somebody else.
    """

    def __init__(
        self, folder: Path, url: str, etag: str, size: int, budget_bytes: int | None = None, *, shares: int = 1
    ) -> None:
        self.key = cache_key(url, etag, size)
        self._digest = bytes.fromhex(self.key)
        self._size = size
        self._root = folder / VERSION
        self._folder = self._root / self.key
        self._checked: dict[int, tuple[int, int]] = {}  # blocks whose entry was read whole and good: inode and time
        self._shares = shares
        self._writes = self._prepare(url, etag)
        _in_use.add(self.key)
        blocks = -(-size // BLOCK_BYTES)
        budget = self._automatic() if budget_bytes is None else budget_bytes
        self._ranks = block_ranks(self.key, blocks)
        self._admitted = blocks if budget >= size else budget // BLOCK_BYTES
        self._trim()

    def admits(self, block: int) -> bool:
        """True where the block is among those that are kept."""
        return self._writes and int(self._ranks[block]) < self._admitted

    def block_bytes(self, block: int) -> int:
        """The bytes of a block: BLOCK_BYTES but for the last one."""
        return min(BLOCK_BYTES, self._size - block * BLOCK_BYTES)

    # Reading.

    def read(self, name: str, number: int, view: memoryview) -> bool:
        """Fill `view` with an entry's bytes, all of them; False where it is not there, or not good: then it goes."""
        fd = self._open(name)
        if fd < 0:
            return False
        try:
            return self._is_good(fd, name, number, view)
        except OSError:  # of the disk: the network has it too
            return False
        finally:
            os.close(fd)

    def read_part(self, block: int, start: int, view: memoryview) -> bool:
        """Fill `view` from byte `start` of a block's entry on, which is checked whole the first time."""
        fd = self._open(str(block))
        if fd < 0:
            return False
        try:
            status = os.fstat(fd)
            mark = status.st_ino, status.st_mtime_ns
            if self._checked.get(block) != mark:
                whole = memoryview(bytearray(self.block_bytes(block)))
                if not self._is_good(fd, str(block), block, whole):
                    return False
                self._checked[block] = mark
            return _pread_all(fd, view, start)
        except OSError:
            return False
        finally:
            os.close(fd)

    def _is_good(self, fd: int, name: str, number: int, view: memoryview) -> bool:
        """Read an open entry whole and hold it to its trailer; one that is not what it should be goes."""
        trailer = bytearray(TRAILER_BYTES)
        good = os.fstat(fd).st_size == len(view) + TRAILER_BYTES
        good = good and _pread_all(fd, view, 0) and _pread_all(fd, memoryview(trailer), len(view))
        if not (good and bytes(trailer) == self._trailer(number, view)):
            self._discard(name, fd)
            return False
        return True

    def _open(self, name: str) -> int:
        try:
            return os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return -1

    def _discard(self, name: str, fd: int) -> None:
        """Remove an entry that is torn, unless another process has put a new one there meanwhile."""
        with suppress(OSError):
            if (self._folder / name).stat().st_ino == os.fstat(fd).st_ino:
                (self._folder / name).unlink()

    def _trailer(self, number: int, data: memoryview) -> bytes:
        return _TRAILER.pack(MAGIC, self._digest, number, len(data), isal_zlib.crc32(data))

    # Writing.

    def write(self, name: str, number: int, data: memoryview) -> None:
        """Keep an entry. A disk that takes no more costs one warning, and nothing is kept from then on."""
        if not self._writes:
            return
        beside = self._folder / f"{name}.{secrets.token_hex(4)}.tmp"
        try:
            if not self._has_room(len(data) + TRAILER_BYTES):
                raise OSError(errno.ENOSPC, f"{KEPT_FREE:.0%} of the disk stays free")
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                for part in (data, memoryview(self._trailer(number, data))):
                    _write_all(fd, part)
            finally:
                os.close(fd)
            beside.rename(self._folder / name)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            if error.errno != errno.ENOENT:
                self._give_up(error)
            elif not self._folder.exists():  # cleared: else each part read would fetch a block that nobody keeps
                self._writes = False

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """One download at a time of an entry, on this machine. After LONGEST_WAIT it goes on without."""
        stripe = hashlib.sha256(f"{self.key}/{name}".encode()).digest()[0] % STRIPES
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._root / "locks" / f"{stripe:02x}", flags, 0o600)
        except OSError:
            yield
            return
        _held.add(fd)
        try:
            _lock(fd)
            yield
        finally:
            if fd in _held:  # else this is a forked child, which has closed it
                _held.discard(fd)
                with suppress(OSError):
                    fcntl.flock(fd, fcntl.LOCK_UN)  # a child forked meanwhile may have the descriptor too
                os.close(fd)

    def _give_up(self, error: OSError) -> None:
        if error.errno not in _NO_CACHE:
            raise error
        self._writes = False
        if str(self._root) not in _warned:
            _warned.add(str(self._root))
            text = f"the cache keeps nothing more, reading goes on over the network ({error.strerror}): {self._root}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    # Room.

    def _prepare(self, url: str, etag: str) -> bool:
        """Make the folders; False where nothing can be written."""
        try:
            for folder in (self._root.parent, self._root, self._root / "locks", self._folder):
                folder.mkdir(mode=0o700, parents=folder == self._root.parent, exist_ok=True)
            refuse_others(self._root)
            about = self._folder / ABOUT
            if about.exists():
                os.utime(about)
            else:
                self._write_about({"url": url.partition("?")[0], "etag": etag, "size": self._size})
        except OSError as error:
            self._give_up(error)
            return False
        return True

    def _automatic(self) -> int:
        """The whole object, or its share of AUTO_SHARE of what is free when it is first opened.

        What was decided then stands in ABOUT, so that every process, whenever it opens the object, admits the same.
        """
        about = self._folder / ABOUT
        try:
            facts = json.loads(about.read_text())
            budget = facts.get("budget")
            if not isinstance(budget, int) or budget < 0:
                free, _ = room(self._root)
                budget = min(self._size, int(AUTO_SHARE * (free + kept_bytes(self._folder))) // self._shares)
                self._write_about({**facts, "budget": budget})
            return budget
        except (OSError, ValueError, AttributeError):
            return 0

    def _write_about(self, facts: dict[str, object]) -> None:
        beside = self._folder / f"{ABOUT}.{secrets.token_hex(4)}.tmp"
        beside.write_text(json.dumps(facts))
        beside.rename(self._folder / ABOUT)

    def _trim(self) -> None:
        """Remove what is no longer admitted, and temporary files without a writer."""
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.isdecimal():
                        block = int(entry.name)
                        gone = block >= len(self._ranks) or int(self._ranks[block]) >= self._admitted
                    else:
                        gone = entry.name.endswith(".tmp") and time.time() - entry.stat().st_mtime > STALE_SECONDS
                    if gone:
                        Path(entry.path).unlink(missing_ok=True)
        except OSError:
            pass

    def _has_room(self, size: int) -> bool:
        """True where the disk keeps KEPT_FREE beside it. Other objects' entries go for that, longest unused first."""
        free, total = room(self._root)
        missing = size + int(KEPT_FREE * total) - free
        if missing <= 0:
            return True
        for other in sorted(cached_objects(self._root.parent), key=lambda one: one.last_use):
            if other.key in _in_use:
                continue
            missing -= evict(self._root / other.key, missing)
            if missing <= 0:
                return True
        return False


def _lock(fd: int) -> None:
    waited, step = 0.0, 0.002
    while waited < LONGEST_WAIT:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                return
        time.sleep(step)
        waited += step
        step = min(0.05, step * 1.5)


def _pread_all(fd: int, view: memoryview, offset: int) -> bool:
    done = 0
    while done < len(view):
        count = os.preadv(fd, [view[done : done + (4 << 20)]], offset + done)
        if count == 0:
            return False
        done += count
    return True


def _write_all(fd: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.write(fd, data[done:])
