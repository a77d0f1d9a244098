"""A remote object read through the cache of this machine: what lies there, and what a read leaves there."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from trainload.memory.aligned import aligned_buffer
from trainload.storage.block_cache import BLOCK_BYTES, BlockCache
from trainload.storage.remote import RemoteSource
from trainload.storage.traffic import Traffic

if TYPE_CHECKING:
    from typing_extensions import Buffer

WARM_THREADS = 8
WHOLE_SHARE = 8  # a read of an eighth of the first block or more brings all of it: less is a look at a header


class CachedSource:
    """An open object, its blocks kept in `cache`: a Source. Safe for many threads; pickles as its URL.

    A block is downloaded once on this machine, and whole, whoever asks for how little of it: the ranks of a node and
    its later epochs want the rest. What the cache does not admit comes over the network as it is asked for.
    """

    def __init__(self, source: RemoteSource, cache: BlockCache) -> None:
        self._source = source
        self._cache = cache
        self._cache_bytes = 0

    @property
    def path(self) -> str:
        return self._source.path

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def etag(self) -> str:
        """What the server calls the state that is read."""
        return self._source.etag

    def identity(self) -> Hashable:
        return self._source.identity()

    def read_at(self, offset: int, size: int) -> bytes:
        self._source.check_range(offset, size)
        data = bytearray(size)
        self.readinto_at(offset, data)
        return bytes(data)

    def read_aligned_at(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` in fresh memory that starts at a multiple of 64 and is the caller's."""
        self._source.check_range(offset, size)
        buffer = aligned_buffer(size)
        self.readinto_at(offset, buffer)
        return buffer

    def readinto_at(self, offset: int, buffer: Buffer) -> None:
        view = memoryview(buffer).cast("B")
        self._source.check_range(offset, len(view))
        for block, start, part in _pieces(offset, view):
            self._read_piece(block, start, part)

    def read_many(self, stretches: Sequence[tuple[int, int]]) -> list[bytes]:
        """As of the source, and the small reads together are one entry of the cache."""
        for offset, size in stretches:
            self._source.check_range(offset, size)
        name = "many-" + hashlib.sha256(repr(list(stretches)).encode()).hexdigest()[:32]
        data = memoryview(bytearray(sum(size for _, size in stretches)))
        if not self._cache.read(name, 0, data):
            with self._cache.locked(name):
                if not self._cache.read(name, 0, data):
                    parts = self._source.read_many(stretches)
                    self._cache.write(name, 0, memoryview(b"".join(parts)))
                    return parts
        self._cache_bytes += len(data)
        ends = [0]
        for _, size in stretches:
            ends.append(ends[-1] + size)
        return [bytes(data[start:end]) for start, end in pairwise(ends)]

    def hold(self, offset: int, size: int) -> None:
        self._source.hold(offset, size)

    def will_need(self, offset: int, size: int) -> None:
        """Nothing: a server reads ahead for nobody."""

    def warm(self) -> Iterator[int]:
        """Download every block that is kept and not there; yields the bytes of each block that is looked at."""
        with ThreadPoolExecutor(WARM_THREADS) as pool:
            yield from pool.map(self._warm_block, range(-(-self.size // BLOCK_BYTES)))

    def _warm_block(self, block: int) -> int:
        size = self._cache.block_bytes(block)
        if self._cache.admits(block):
            self._read_whole(block, memoryview(bytearray(size)))
        return size

    def clone(self) -> CachedSource:
        """Another handle on the same object and cache, with counts of its own."""
        return CachedSource(self._source.clone(), self._cache)

    def take_traffic(self) -> Traffic:
        """What this handle has counted since it was last asked."""
        counted = self._source.take_traffic()
        counted.cache_bytes, self._cache_bytes = self._cache_bytes, 0
        return counted

    def close(self) -> None:
        self._source.close()

    def _read_piece(self, block: int, start: int, view: memoryview) -> None:
        size = self._cache.block_bytes(block)
        if len(view) == size:
            self._read_whole(block, view)
        elif self._cache.read_part(block, start, view):
            self._cache_bytes += len(view)
        elif self._cache.admits(block) and (block or len(view) * WHOLE_SHARE >= size):
            whole = memoryview(bytearray(size))
            self._read_whole(block, whole)
            view[:] = whole[start : start + len(view)]
        else:
            self._source.readinto_at(block * BLOCK_BYTES + start, view)

    def _read_whole(self, block: int, view: memoryview) -> None:
        name = str(block)
        if self._cache.read(name, block, view):
            self._cache_bytes += len(view)
            return
        if not self._cache.admits(block):
            self._source.readinto_at(block * BLOCK_BYTES, view)
            return
        with self._cache.locked(name):
            if self._cache.read(name, block, view):
                self._cache_bytes += len(view)
                return
            self._source.readinto_at(block * BLOCK_BYTES, view)
            self._cache.write(name, block, view)

    def __reduce__(self) -> tuple[object, ...]:
        from trainload.storage.location import open_source

        return open_source, (self.path,)

    def __enter__(self) -> CachedSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def through_cache(source: RemoteSource, folder: Path, budget_bytes: int | None, shares: int) -> CachedSource:
    """The object read through the cache in `folder`, of which it may take `budget_bytes`, None for all of it.

    shares: the objects of its set.
    """
    url, etag, size = str(source.path), source.etag, source.size
    return CachedSource(source, BlockCache(folder, url, etag, size, budget_bytes, shares=shares))


def _pieces(offset: int, view: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """What of `view` lies in which block: the block, the first byte in it, the part."""
    done = 0
    while done < len(view):
        block, start = divmod(offset + done, BLOCK_BYTES)
        part = view[done : done + BLOCK_BYTES - start]
        yield block, start, part
        done += len(part)
