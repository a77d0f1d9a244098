"""One block of a picture file, bytes <-> values (docs/spec/dts.md, section 2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.formats.fields import Checker
from trainload.images.format import rules
from trainload.images.format.dts import BLOCK_FIXED_BYTES, DtsHeader, block_capacity

_BLOCK = struct.Struct("<4sII")


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """The head of one block (docs/spec/dts.md, section 2): magic `LVnB`, block_id, num_pics, then three u32 arrays.

    offsets: bytes from the start of the block. sizes: bytes of each JPEG without padding. labels: class numbers.
    """

    level: int
    block_id: int
    offsets: NDArray[np.uint32]
    sizes: NDArray[np.uint32]
    labels: NDArray[np.uint32]

    def to_bytes(self, block_header_size: int) -> bytes:
        """The block header, zero-filled to `block_header_size`; the caller has seen to it that the entries fit."""
        fixed = _BLOCK.pack(_block_magic(self.level), self.block_id, len(self.offsets))
        arrays = b"".join(np.ascontiguousarray(a, "<u4").tobytes() for a in (self.offsets, self.sizes, self.labels))
        return (fixed + arrays).ljust(block_header_size, b"\0")

    @staticmethod
    def from_bytes(
        data: bytes | memoryview, header: DtsHeader, block_id: int, *, offset: int, path: str
    ) -> BlockHeader:
        """Parse and check the header of block `block_id`, which starts at `offset` in the file.

        `data` holds at least `header.block_header_size` bytes. The arrays are views into it. Raises FormatError for a
        wrong magic or number, a count above the header's room, pictures outside the block or over one another, and
        labels outside the classes.
        """
        check = Checker(path, offset)
        check.require(
            len(data) >= header.block_header_size,
            rules.BLOCK_WHOLE,
            field="block header",
            offset=0,
            found=f"{len(data)} bytes",
            expected=f"{header.block_header_size} bytes",
        )
        magic, found_id, count = _BLOCK.unpack_from(data)
        expected = _block_magic(header.compress_level)
        for field, at, found, wanted in (("block magic", 0, magic, expected), ("block_id", 4, found_id, block_id)):
            check.require(
                found == wanted,
                rules.BLOCK_MAGIC,
                block=block_id,
                field=field,
                offset=at,
                found=found,
                expected=wanted,
            )
        most = block_capacity(header.block_header_size)
        check.require(
            count <= most,
            rules.BLOCK_ROOM,
            block=block_id,
            field="num_pics",
            offset=8,
            found=f"{count:,}",
            expected=f"at most {most:,}",
        )
        entries = np.frombuffer(data, "<u4", 3 * count, BLOCK_FIXED_BYTES).reshape(3, count)
        block = BlockHeader(header.compress_level, block_id, *entries)
        _check_entries(block, header, check)
        return block


def _check_entries(block: BlockHeader, header: DtsHeader, check: Checker) -> None:
    count = len(block.offsets)
    starts = block.offsets.astype(np.int64)
    ends = starts + block.sizes
    order = np.argsort(starts, kind="stable")
    previous_end = np.empty(count, np.int64)
    previous_end[order] = np.concatenate(([header.block_header_size], ends[order][:-1]))[:count]
    for bad, name, array, expected in (
        (starts < header.block_header_size, "offset", block.offsets, f"at least {header.block_header_size:,}"),
        (ends > header.block_size, "size", block.sizes, "an end inside the block"),
        (starts < previous_end, "offset", block.offsets, "a start after the picture before it"),
        (block.labels >= header.num_classes, "label", block.labels, f"below num_classes = {header.num_classes:,}"),
    ):
        if bad.any():
            n = int(np.argmax(bad))
            row = ("offset", "size", "label").index(name)
            check.require(
                False,
                rules.BLOCK_PICTURE,
                block=block.block_id,
                picture=n,
                field=f"{name}s[{n}]",
                found=f"{int(array[n]):,}",
                expected=expected,
                offset=BLOCK_FIXED_BYTES + 4 * (row * count + n),
            )


def _block_magic(level: int) -> bytes:
    return b"LV%dB" % level
