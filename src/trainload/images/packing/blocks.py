"""A stream of samples cut into blocks, and a block as its 16 MB. Knows no files and no processes.

Three ways to cut (docs/spec/dts.md, section 5): as planned, in sequence, or mixed. A refused picture leaves a gap in
the stream that no way of cutting minds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.format import dts
from trainload.images.packing.arrange import WINDOW_BLOCKS, aligned_sizes, fill_block

COUNT_HEADROOM = 1.25  # room for blocks of more pictures than the average
MAX_BLOCK_HEADER_SIZE = 1 << 20


class Placed(NamedTuple):
    """A sample on its way into a block. picture: position in the source's list. data: None where it was refused."""

    picture: int
    data: bytes | None
    area: int
    kinds: int


Block = list[Placed]


def block_header_size_for(sizes: Iterable[int], least: int) -> int:
    """Bytes of block header that pictures of these sizes need, at least `least`, in steps of BLOCK_HEADER_STEP."""
    aligned = aligned_sizes(list(sizes))
    if not len(aligned):
        return least
    per_block = dts.BLOCK_SIZE / max(float(aligned.mean()), dts.PICTURE_ALIGNMENT)
    count = min(len(aligned), int(per_block * COUNT_HEADROOM) + 16)
    needed = dts.align(dts.BLOCK_FIXED_BYTES + count * dts.BLOCK_ENTRY_BYTES, dts.BLOCK_HEADER_STEP)
    return min(max(least, needed), MAX_BLOCK_HEADER_SIZE)


def first_window(stream: Iterator[Placed]) -> Block:
    """The samples that decide on the block header's size: as many as fill WINDOW_BLOCKS blocks, or all."""
    window: Block = []
    size = 0
    while size < WINDOW_BLOCKS * dts.BLOCK_SIZE and (placed := next(stream, None)):
        window.append(placed)
        size += len(placed.data or b"")
    return window


def planned_blocks(stream: Iterator[Placed], counts: Iterable[int]) -> Iterator[Block]:
    """Blocks of the given numbers of pictures, less those that were refused."""
    for count in counts:
        yield [placed for placed in islice(stream, count) if placed.data is not None]


def sequential_blocks(stream: Iterator[Placed], block_header_size: int) -> Iterator[Block]:
    """In order; a sample that does not fit closes the block and opens the next."""
    capacity = dts.BLOCK_SIZE - block_header_size
    block: Block = []
    space = capacity
    for placed in stream:
        if placed.data is None:
            continue
        size = dts.align(len(placed.data))
        if size > space:
            yield block
            block, space = [], capacity
        block.append(placed)
        space -= size
    if block:
        yield block


def mixed_blocks(stream: Iterator[Placed], block_header_size: int) -> Iterator[Block]:
    """In order but for the last few samples of each block, which a window of the stream is searched for."""
    capacity = dts.BLOCK_SIZE - block_header_size
    most = dts.block_capacity(block_header_size)
    window: Block = []
    window_bytes = 0
    while True:
        while window_bytes < WINDOW_BLOCKS * capacity and (placed := next(stream, None)):
            if placed.data is not None:
                window.append(placed)
                window_bytes += dts.align(len(placed.data))
        if not window:
            return
        sizes = aligned_sizes([len(placed.data or b"") for placed in window])
        chosen = fill_block(sizes, capacity, most)
        yield [window[n] for n in chosen]
        window_bytes -= int(sizes[chosen].sum())
        gone = set(chosen.tolist())
        window = [placed for n, placed in enumerate(window) if n not in gone]


def fill_block_bytes(block: Block, labels: NDArray[np.int32], header: tuple[int, int, int], out: bytearray) -> int:
    """Fill `out` (BLOCK_SIZE bytes) with the block; the bytes that its pictures take with their padding.

    labels: of every picture of the source. header: level, block_id, block_header_size. Raises UsageError where the
    header has no room for so many pictures, which only a reference arrangement can bring about.
    """
    level, block_id, block_header_size = header
    most = dts.block_capacity(block_header_size)
    if len(block) > most:
        raise UsageError(
            f"a genuine block header holds {most:,} pictures, block {block_id} would need {len(block):,}: "
            "pictures this small go without --reference"
        )
    sizes = np.array([len(placed.data or b"") for placed in block], np.int64)
    ends = block_header_size + np.cumsum(aligned_sizes(sizes))
    offsets = np.concatenate(([block_header_size], ends))[: len(block)]
    head = dts.BlockHeader(
        level,
        block_id,
        offsets.astype(np.uint32),
        sizes.astype(np.uint32),
        labels[[placed.picture for placed in block]].astype(np.uint32),
    )
    out[:block_header_size] = head.to_bytes(block_header_size)
    at = block_header_size
    for placed, size in zip(block, sizes.tolist()):
        padded = dts.align(size)
        out[at : at + padded] = (placed.data or b"").ljust(padded, b"\0")
        at += padded
    out[at:] = bytes(len(out) - at)
    return at - block_header_size
