"""Memory that is used again: blocks that are lent as arrays, and come back when the array and all views of it are gone.

Fresh memory is cleared by the system page by page, which costs about as much as reading into it from the page cache.
What is lent is an array over a block. Views of it, tensors and memoryviews keep this array alive, so the callback of a
weak reference to it runs when nobody sees the block any more. No reference is counted, so that this holds on
free-threaded Python as well.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque

import numpy as np
from numpy.typing import NDArray

from trainload.memory.aligned import LEAST_HUGE_BYTES, aligned_array, aligned_buffer, huge_buffer, whole_huge_pages

SMALL_BYTES = 256 << 10  # below, fresh memory costs too little to be worth looking for an idle block


class Block:
    """Memory that a pool looks after. room: its bytes."""

    __slots__ = ("data", "room")

    def __init__(self, room: int, *, huge: bool) -> None:
        self.room = room
        self.data = huge_buffer(room) if huge else aligned_buffer(room)


class Lease(weakref.ref[NDArray[np.uint8]]):
    """A weak reference to the array that was lent. block: what it lies over."""

    __slots__ = ("block",)
    block: Block


class MemoryPool:
    """`take(size)` gives an idle block of about that size, or a fresh one. Safe for many threads.

    What a caller keeps stays as it is. Large blocks lie in huge pages, where reads from the page cache are a quarter
    faster. limit_bytes: of the blocks that the pool looks after, lent or idle; past it the size that was least lately
    asked for goes first, and what is lent then is freed after its users. huge_bytes: blocks of this size and above lie
    in huge pages. small_bytes: less is always fresh memory (SMALL_BYTES). size_bytes: what the pool looks after now.
    """

    def __init__(self, limit_bytes: int, *, huge_bytes: int = LEAST_HUGE_BYTES, small_bytes: int | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._huge_bytes = huge_bytes
        self._small_bytes = SMALL_BYTES if small_bytes is None else small_bytes
        self._blocks: OrderedDict[int, list[Block]] = OrderedDict()  # by room, the oldest first
        self._idle: dict[int, list[Block]] = {}
        self._lent: dict[int, Lease] = {}  # by id: their callbacks run while they live, and end with the pool
        self._ended: deque[Lease] = deque()  # callbacks run anywhere, also under the lock: they only append
        self._lock = threading.Lock()

    def take(self, size: int) -> NDArray[np.uint8]:
        """uint8 [size], not initialised, at a multiple of 64; yours as long as you hold it or a view of it."""
        room = self.room_of(size)
        if size < self._small_bytes or room > self.limit_bytes:
            return aligned_array(size)
        with self._lock:
            if self._ended:
                self._sort_in()
            idle = self._idle.get(room)
            if len(self._blocks) > 1 and room in self._blocks:
                self._blocks.move_to_end(room)
            block = idle.pop() if idle else self._add(room)
            array = np.frombuffer(block.data, np.uint8)  # views hold this very array: what lies behind it is none
            lease = Lease(array, self._ended.append)
            lease.block = block
            self._lent[id(lease)] = lease
        return array[:size]

    def room_of(self, size: int) -> int:
        """`size` and at most half more, so that few sizes occur: quarters of the power of two below, or huge pages."""
        step = 1 << max(0, size.bit_length() - 3)
        room = -(-size // step) * step
        return room if room < self._huge_bytes else max(LEAST_HUGE_BYTES, whole_huge_pages(room))

    def allow(self, limit_bytes: int) -> None:
        """Raise the limit to at least so much."""
        self.limit_bytes = max(self.limit_bytes, limit_bytes)

    def _add(self, room: int) -> Block:
        block = Block(room, huge=room >= self._huge_bytes)
        self._blocks.setdefault(room, []).append(block)
        self.size_bytes += room
        self._shrink()
        return block

    def _sort_in(self) -> None:
        """Make idle what has come back, unless the pool looks after it no more."""
        while self._ended:
            lease = self._ended.popleft()
            del self._lent[id(lease)]
            block = lease.block
            if block in self._blocks.get(block.room, ()):
                self._idle.setdefault(block.room, []).append(block)

    def _shrink(self) -> None:
        while self.size_bytes > self.limit_bytes:
            room, blocks = next(iter(self._blocks.items()))
            gone = blocks.pop(0)
            self._idle[room] = [block for block in self._idle.get(room, ()) if block is not gone]
            self.size_bytes -= room
            if not blocks:
                del self._blocks[room], self._idle[room]
