"""Checks one block of a picture file; pickles, so that several processes can share the blocks of a file.

Processes and not threads: the CRC holds the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.errors import FormatError
from trainload.formats.findings import Finding
from trainload.images.checking.region import first_nonzero
from trainload.images.format import rules
from trainload.images.format.block import BlockHeader
from trainload.images.format.dts import (
    BLOCK_ENTRY_BYTES,
    BLOCK_FIXED_BYTES,
    BLOCK_SIZE,
    IMAGE_HEADER_BYTES,
    DtsHeader,
)
from trainload.storage.location import open_source

# Gives the pixels, uint8 [h, w, c], or raises whatever it likes with the reason as its text.
Decoder = Callable[[memoryview], NDArray[np.uint8]]


@dataclass(slots=True)
class BlockResult:
    """What is known of one block after its check.

    crc: CRC-32 of its 16 MB, None where it could not be read. header: None where it is damaged. picture_crcs: CRC-32 of
    each picture, only in a damaged block. decoded: pictures given to the decoder. max_area: pixels of the largest one.
    findings: with `sample` counted from the start of the block. suspicions: what counts only if a CRC is wrong too.
    """

    k: int
    crc: int | None = None
    header: BlockHeader | None = None
    damaged: bool = False
    picture_crcs: list[int] = field(default_factory=list)
    decoded: int = 0
    max_area: int = 0
    findings: list[Finding] = field(default_factory=list)
    suspicions: list[Finding] = field(default_factory=list)

    @property
    def num_pics(self) -> int | None:
        """Pictures in the block, None where its header is damaged."""
        return None if self.header is None else len(self.header.sizes)


@dataclass(slots=True)
class BlockChecker:
    """Checks block `k` of one file: CRC, block header, zeros, and the pictures themselves as far as asked for.

    header: None where it is damaged; then only the CRC is checked. crcs: the CRCs that the file carries, if it does.
    decode: decodes every picture (`decode_all`), or those of blocks whose CRC is wrong, to name the damaged ones.
    """

    path: str
    header: DtsHeader | None
    crcs: NDArray[np.uint32] | None
    decode: Decoder | None
    decode_all: bool
    _buffer: NDArray[np.uint8] | None = None  # of one block, made by the process that needs it

    def __call__(self, k: int) -> BlockResult:
        """Read and check block `k`. Memory: 16 MB."""
        result = BlockResult(k)
        offset = IMAGE_HEADER_BYTES + k * BLOCK_SIZE
        if self._buffer is None:
            self._buffer = np.empty(BLOCK_SIZE, np.uint8)
        data = self._buffer
        try:
            with open_source(self.path) as source:
                source.readinto_at(offset, data.data)
        except FormatError as error:
            result.findings.append(Finding.from_error(error, block=k))
            return result
        result.crc = isal_zlib.crc32(data)
        result.damaged = self.crcs is not None and result.crc != int(self.crcs[k])
        block = self._parse(data, offset, result)
        if block is not None:
            result.suspicions += self._check_zeros(data, block, offset)
            if result.damaged:
                result.picture_crcs = [isal_zlib.crc32(view) for view in _pictures(data, block)]
            if self.decode is not None and (self.decode_all or result.damaged):
                self._decode(data, block, offset, result)
        return result

    def _parse(self, data: NDArray[np.uint8], offset: int, result: BlockResult) -> BlockHeader | None:
        if self.header is None:
            return None
        head = data[: self.header.block_header_size].tobytes()  # a copy: the result outlives the block
        try:
            result.header = BlockHeader.from_bytes(head, self.header, result.k, offset=offset, path=self.path)
        except FormatError as error:
            result.findings.append(Finding.from_error(error, block=result.k))
        return result.header

    def _check_zeros(self, data: NDArray[np.uint8], block: BlockHeader, offset: int) -> Iterator[Finding]:
        """Findings for bytes between the entries and the pictures, and after the last, that are not zero."""
        order = np.argsort(block.offsets, kind="stable")
        entries_end = BLOCK_FIXED_BYTES + BLOCK_ENTRY_BYTES * len(order)
        ends = [entries_end, *(block.offsets[order].astype(np.int64) + block.sizes[order]).tolist()]
        starts = [*block.offsets[order].tolist(), BLOCK_SIZE]
        for gap_start, gap_end in zip(ends, starts):
            place = first_nonzero(data[:gap_end], gap_start)
            if place is not None:
                yield Finding.of(
                    rules.BLOCK_PADDING,
                    "padding",
                    offset + place,
                    f"{data[place]:#04x}",
                    "0",
                    self.path,
                    end=offset + place + 1,
                    block=block.block_id,
                )

    def _decode(self, data: NDArray[np.uint8], block: BlockHeader, offset: int, result: BlockResult) -> None:
        assert self.decode is not None
        for n, view in enumerate(_pictures(data, block)):
            start = offset + int(block.offsets[n])
            try:
                pixels = self.decode(view)
                result.max_area = max(result.max_area, pixels.shape[0] * pixels.shape[1])
            except Exception as error:  # a decoder may raise anything for bad bytes; each is one damaged picture
                result.findings.append(
                    Finding.of(
                        rules.PICTURE_DECODE,
                        f"picture {n}",
                        start,
                        str(error) or type(error).__name__,
                        "a whole picture",
                        self.path,
                        end=start + len(view),
                        block=result.k,
                        sample=n,
                    )
                )
            result.decoded += 1


def _pictures(data: NDArray[np.uint8], block: BlockHeader) -> list[memoryview]:
    pairs = zip(block.offsets.tolist(), block.sizes.tolist())
    return [data.data[start : start + size] for start, size in pairs]
