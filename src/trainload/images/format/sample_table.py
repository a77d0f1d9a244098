"""The section TABL, bytes <-> values (docs/spec/dts.md, section 8): what all block headers say, in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.codecs.compression import zstd_compress, zstd_decompress
from trainload.formats.fields import Checker
from trainload.images.format import rules
from trainload.images.format.dts import BLOCK_SIZE, PICTURE_ALIGNMENT, DtsHeader, block_capacity

_LEVEL = 9  # Zstandard: a twentieth smaller than level 3, at 50 ns per sample


@dataclass(frozen=True, slots=True)
class SampleTable:
    """Every sample of one file, in order.

    sizes: int64 [n], bytes. labels: int64 [n], None where they follow from the source paths.
    """

    sizes: NDArray[np.int64]
    labels: NDArray[np.int64] | None

    def to_bytes(self) -> bytes:
        """The section's body."""
        columns = [self.sizes] if self.labels is None else [self.sizes, self.labels]
        return zstd_compress(b"".join(map(_shuffled, columns)), _LEVEL)

    @staticmethod
    def from_bytes(body: bytes, header: DtsHeader, *, path: str) -> SampleTable:
        """Raises FormatError for a frame that does not unpack to one or two columns of num_samples numbers."""
        count = header.num_samples
        try:
            data = zstd_decompress(body, 8 * count)
        except ValueError as error:
            raise _broken(str(error), count, path) from error
        if len(data) not in (4 * count, 8 * count):
            raise _broken(f"{len(data):,} bytes", count, path)
        sizes = _unshuffled(data[: 4 * count], count)
        return SampleTable(sizes, _unshuffled(data[4 * count :], count) if len(data) > 4 * count else None)

    def offsets(self, counts: NDArray[np.integer], header: DtsHeader, *, path: str) -> NDArray[np.uint32]:
        """Where each sample starts in its block, uint32 [n]: one after the other behind the block's header, aligned.

        counts: samples of each block. Raises FormatError where these are not all samples, or where a block has no room.
        """
        check = Checker(path)
        total = int(counts.sum())
        check.require(
            total == len(self.sizes),
            rules.TABLE_COUNT,
            field="TABL",
            offset=None,
            found=f"{len(self.sizes):,} samples",
            expected=f"{total:,} as in BLKS",
        )
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
        ends = np.concatenate(
            (np.zeros(1, np.int64), np.cumsum(-(-self.sizes // PICTURE_ALIGNMENT) * PICTURE_ALIGNMENT))
        )
        used = ends[first[1:]] - ends[first[:-1]]
        too_many = np.asarray(counts) > block_capacity(header.block_header_size)
        for bad in np.flatnonzero(too_many | (used > BLOCK_SIZE - header.block_header_size))[:1].tolist():
            check.require(
                False,
                rules.TABLE_ROOM,
                block=bad,
                field="TABL",
                offset=None,
                found=f"{int(counts[bad]):,} samples of {int(used[bad]):,} bytes",
                expected=f"what fits behind a header of {header.block_header_size:,} bytes",
            )
        starts: NDArray[np.int64] = ends[:-1] - np.repeat(ends[first[:-1]], counts) + header.block_header_size
        return starts.astype(np.uint32)


def _shuffled(values: NDArray[np.int64]) -> bytes:
    """All lowest bytes, then all second ones, and so on: like stands beside like."""
    return values.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes()


def _unshuffled(data: bytes, count: int) -> NDArray[np.int64]:
    planes = np.frombuffer(data, np.uint8).reshape(4, count)
    return np.ascontiguousarray(planes.T).view("<u4").reshape(count).astype(np.int64)


def _broken(found: str, count: int, path: str) -> Exception:
    return rules.TABLE_SIZE.broken(
        field="TABL", offset=None, found=found, expected=f"sizes, or sizes and labels, of {count:,} samples", path=path
    )
