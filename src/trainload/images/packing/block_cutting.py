"""A stream of samples cut into blocks, and a block as its 16 MB. Knows no files and no processes.

Three ways to cut (docs/spec/dts.md, section 5): as planned, in sequence, or mixed. A refused picture leaves a gap in
the stream that no way of cutting minds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.format import dts
from trainload.images.format.block import BlockHeader
from trainload.images.packing.arrange import WINDOW_BLOCKS, aligned_sizes, fill_block
from trainload.images.packing.packed_picture import PackedPicture

COUNT_HEADROOM = 1.25  # room for blocks of more pictures than the average
MAX_BLOCK_HEADER_SIZE = 1 << 20


Block = list[PackedPicture]


def block_header_size_for(sizes: Iterable[int], least: int) -> int:
    """Bytes of block header that pictures of these sizes need, at least `least`, in steps of BLOCK_HEADER_STEP."""
    aligned = aligned_sizes(list(sizes))
    if not len(aligned):
        return least
    per_block = dts.BLOCK_SIZE / max(float(aligned.mean()), dts.PICTURE_ALIGNMENT)
    count = min(len(aligned), int(per_block * COUNT_HEADROOM) + 16)
    needed = dts.align(dts.BLOCK_FIXED_BYTES + count * dts.BLOCK_ENTRY_BYTES, dts.BLOCK_HEADER_STEP)
    return min(max(least, needed), MAX_BLOCK_HEADER_SIZE)


def first_window(stream: Iterator[PackedPicture]) -> Block:
    """The samples that decide on the block header's size: as many as fill WINDOW_BLOCKS blocks, or all."""
    window: Block = []
    size = 0
    while size < WINDOW_BLOCKS * dts.BLOCK_SIZE and (picture := next(stream, None)):
        window.append(picture)
        size += len(picture.data)
    return window


def planned_blocks(stream: Iterator[PackedPicture], counts: Iterable[int]) -> Iterator[Block]:
    """Blocks of the given numbers of pictures, less those that were refused."""
    for count in counts:
        yield [picture for picture in islice(stream, count) if not picture.is_refused]


def sequential_blocks(stream: Iterator[PackedPicture], block_header_size: int) -> Iterator[Block]:
    """In order; a sample that does not fit closes the block and opens the next."""
    capacity = dts.BLOCK_SIZE - block_header_size
    block: Block = []
    space = capacity
    for picture in stream:
        if picture.is_refused:
            continue
        size = dts.align(len(picture.data))
        if size > space:
            yield block
            block, space = [], capacity
        block.append(picture)
        space -= size
    if block:
        yield block


def mixed_blocks(stream: Iterator[PackedPicture], block_header_size: int) -> Iterator[Block]:
    """In order but for the last few samples of each block, which a window of the stream is searched for."""
    capacity = dts.BLOCK_SIZE - block_header_size
    most = dts.block_capacity(block_header_size)
    window: Block = []
    window_bytes = 0
    while True:
        while window_bytes < WINDOW_BLOCKS * capacity and (picture := next(stream, None)):
            if not picture.is_refused:
                window.append(picture)
                window_bytes += dts.align(len(picture.data))
        if not window:
            return
        sizes = aligned_sizes([len(picture.data) for picture in window])
        chosen = fill_block(sizes, capacity, most)
        yield [window[n] for n in chosen]
        window_bytes -= int(sizes[chosen].sum())
        gone = set(chosen.tolist())
        window = [picture for n, picture in enumerate(window) if n not in gone]


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
    sizes = np.array([len(picture.data) for picture in block], np.int64)
    ends = block_header_size + np.cumsum(aligned_sizes(sizes))
    offsets = np.concatenate(([block_header_size], ends))[: len(block)]
    head = BlockHeader(
        level,
        block_id,
        offsets.astype(np.uint32),
        sizes.astype(np.uint32),
        labels[[picture.number for picture in block]].astype(np.uint32),
    )
    out[:block_header_size] = head.to_bytes(block_header_size)
    at = block_header_size
    for picture, size in zip(block, sizes.tolist()):
        padded = dts.align(size)
        out[at : at + padded] = picture.data.ljust(padded, b"\0")
        at += padded
    out[at:] = bytes(len(out) - at)
    return at - block_header_size
