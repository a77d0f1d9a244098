"""A DTS image set, read: tables of every sample, one sample, one block, many samples in few reads.

Nothing is mapped; every read is positional and exact. Decoding is none of this file's business.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from isal import isal_zlib
from numpy.typing import ArrayLike, NDArray

from trainload.errors import UsageError
from trainload.formats.findings import Report
from trainload.images.checking.block_checker import Decoder
from trainload.images.checking.picture_set import verify_volumes
from trainload.images.files.volumes import Volume, open_volumes, read_tables
from trainload.images.format import rules
from trainload.images.format.dts import BLOCK_SIZE, DtsHeader
from trainload.images.reading.describe import in_html, in_one_line, size_text
from trainload.images.reading.facts import facts_of
from trainload.images.reading.sample import Sample
from trainload.storage.read_plan import join_requests
from trainload.storage.traffic import Traffic

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_GAP_BYTES = 64 << 10  # unwanted bytes that one read may carry between two wanted samples
MAX_RUN_BYTES = 4 << 20  # one read that serves several samples


@dataclass(frozen=True, slots=True)
class Block:
    """One block in memory: 16 MB of bytes and views of its samples, without copies.

    id: block number in the set. first: id of its first sample. offsets, sizes, labels: one entry per sample.
    `block[n]` is its n-th sample; len and iteration work as for a list.
    """

    id: int
    first: int
    data: memoryview
    offsets: NDArray[np.uint32]
    sizes: NDArray[np.int64]
    labels: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, n: int) -> Sample:
        n = _position(n, len(self.sizes))
        start = int(self.offsets[n])
        return Sample(self.data[start : start + int(self.sizes[n])], int(self.labels[n]), self.first + n)

    def __iter__(self) -> Iterator[Sample]:
        return map(self.__getitem__, range(len(self)))


class DtsReader:
    """An open DTS set of one or more volumes (`trainload.open` makes it). Safe for many threads; pickles as its paths.

    len(ds) samples; ds[i] is one Sample, by one read, held to its checksum where the file carries one. A sample's id is
    its place in the set: volumes, blocks, pictures in order.
    path, paths: the files in volume order. header, headers: their headers. level: 0 to 3. class_names: in label order,
    () where the file carries none. num_blocks: of all volumes.
    labels: int32 [n]. sizes: int64 [n], bytes. offset_in_block: uint32 [n]. block_first: int64 [num_blocks + 1].
    block_of: int32 [n]. offsets: int64 [n], from the start of the block region of the sample's volume.
    block_crcs: uint32 [num_blocks], picture_crcs: uint32 [n]; None where the file carries none.
    Opening costs one small read per block. Raises FormatError for files that break docs/spec/dts.md.
    """

    block_size = BLOCK_SIZE

    verified_files: frozenset[str] = frozenset()  # identities of the files that were compared whole

    def __init__(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        names = [os.fspath(path) for path in given]
        if not names:
            raise UsageError("a DTS set needs at least one file")
        self._volumes = open_volumes(names)
        try:
            self._take_tables()
        except BaseException:
            self.close()
            raise

    def _take_tables(self) -> None:
        self.paths = tuple(volume.source.path for volume in self._volumes)
        self.path = self.paths[0]
        self.headers = tuple(volume.header for volume in self._volumes)
        self.header: DtsHeader = self.headers[0]
        if not self.header.holds_pictures:
            raise UsageError(f"{self.header.dataset_type} files hold one array, not blocks: open them with ArrayReader")
        self.level = self.header.compress_level
        self.class_names = self._volumes[0].extension.class_names()
        self.num_blocks = self.header.total_blocks
        tables = read_tables(self._volumes)
        self.labels, self.sizes = tables.labels, tables.sizes
        self.offset_in_block, self.block_first = tables.offset_in_block, tables.block_first
        counts = [header.num_blocks for header in self.headers]
        self._volume_first = np.concatenate(([0], np.cumsum(counts)))  # first block of each volume, closed
        self.block_crcs = _of_all_volumes([volume.extension.block_crcs() for volume in self._volumes])
        self.picture_crcs = _of_all_volumes([volume.extension.picture_crcs() for volume in self._volumes])

    @cached_property
    def block_of(self) -> NDArray[np.int32]:
        """The block of each sample, int32 [n]."""
        return np.repeat(np.arange(self.num_blocks, dtype=np.int32), np.diff(self.block_first))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Bytes from the start of its volume's block region to each sample, int64 [n]."""
        first = np.repeat(self._volume_first[:-1], np.diff(self._volume_first))
        local_block = np.arange(self.num_blocks) - first
        starts: NDArray[np.int64] = np.repeat(local_block * BLOCK_SIZE, np.diff(self.block_first))
        return starts + self.offset_in_block.astype(np.int64)

    def identity(self) -> Hashable:
        """Equal for readers of the same files in the same state; nothing is read."""
        return tuple(volume.source.identity() for volume in self._volumes)

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Sample]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, i: int) -> Sample:
        i = _position(i, len(self.labels))
        volume, start = self._locate(int(self.block_of[i]))
        data = volume.source.read_at(start + int(self.offset_in_block[i]), int(self.sizes[i]))
        self.check_picture(i, data)
        return Sample(memoryview(data), int(self.labels[i]), i)

    def block(self, k: int) -> Block:
        """Block `k` of the set in 16 MB of fresh memory; `readinto_block` reuses a buffer of yours."""
        return self.readinto_block(k, np.empty(BLOCK_SIZE, np.uint8).data)

    def readinto_block(self, k: int, buffer: Buffer) -> Block:
        """Block `k` of the set read into `buffer` (exactly 16 MB, reads of 4 MB each); the Block's views lie in it."""
        k = _position(k, self.num_blocks)
        data = memoryview(buffer).cast("B")
        if len(data) != BLOCK_SIZE:
            raise UsageError(f"a block needs a buffer of {BLOCK_SIZE:,} bytes, not {len(data):,}")
        volume, start = self._locate(k)
        volume.source.readinto_at(start, data)
        first, end = int(self.block_first[k]), int(self.block_first[k + 1])
        rows = slice(first, end)
        return Block(k, first, data, self.offset_in_block[rows], self.sizes[rows], self.labels[rows])

    def readinto_part(self, k: int, start: int, buffer: Buffer) -> None:
        """Fill `buffer` with the bytes of block `k` from byte `start` of the block on."""
        volume, block_start = self._locate(k)
        volume.source.readinto_at(block_start + start, buffer)

    def path_of_block(self, k: int) -> str:
        """The file that holds block `k` of the set."""
        return self._locate(k)[0].source.path

    def check_block(self, k: int, data: Buffer) -> None:
        """Raise FormatError where the CRC-32 of block `k`'s 16 MB is not the one that the file carries, if it does."""
        if self.block_crcs is None:
            return
        found, expected = isal_zlib.crc32(data), int(self.block_crcs[k])
        if found != expected:
            volume, start = self._locate(k)
            raise rules.BLOCK_CRC.broken(
                field=f"block {k}",
                offset=start,
                found=f"{found:#010x}",
                expected=f"{expected:#010x}",
                path=volume.source.path,
            )

    def check_picture(self, i: int, data: Buffer) -> None:
        """Raise FormatError where the CRC-32 of sample `i`'s bytes is not the one that the file carries, if it does."""
        if self.picture_crcs is None:
            return
        found, expected = isal_zlib.crc32(data), int(self.picture_crcs[i])
        if found != expected:
            block, source = int(self.block_of[i]), self.source(i)
            volume, start = self._locate(block)
            raise rules.PICTURE_CRC.broken(
                field=f"sample {i} in block {block}" + (f" (from {source})" if source else ""),
                offset=start + int(self.offset_in_block[i]),
                found=f"{found:#010x}",
                expected=f"{expected:#010x}",
                path=volume.source.path,
            )

    def samples(self, indices: ArrayLike) -> list[Sample]:
        """The samples of any ids, in the order asked, read in file order with neighbours in one read.

        One read spans at most 4 MB (or one larger sample) and skips at most 64 KB between samples. The samples of one
        read are views of one buffer: keeping one keeps it all. Raises IndexError for an id outside the set, FormatError
        for a sample whose checksum is wrong.
        """
        ids = np.asarray(indices, np.int64).ravel()
        if len(ids) and (ids.min() < 0 or ids.max() >= len(self)):
            raise IndexError(f"sample ids must lie in 0 to {len(self) - 1}")
        starts = self.offsets[ids]
        ends = starts + self.sizes[ids]
        volumes = np.searchsorted(self._volume_first, self.block_of[ids], "right") - 1
        found: list[Sample | None] = [None] * len(ids)
        reads = join_requests(starts, ends - starts, files=volumes, max_gap=MAX_GAP_BYTES, max_read=MAX_RUN_BYTES)
        for k, (begin, end) in enumerate(zip(reads.starts.tolist(), reads.ends.tolist())):
            run = reads.order[reads.bounds[k] : reads.bounds[k + 1]]
            volume = self._volumes[volumes[run[0]]]
            data = memoryview(volume.source.read_at(volume.header.header_bytes + begin, end - begin))
            for n in run.tolist():
                view = data[int(starts[n]) - begin : int(ends[n]) - begin]
                self.check_picture(int(ids[n]), view)
                found[n] = Sample(view, int(self.labels[ids[n]]), int(ids[n]))
        return [sample for sample in found if sample is not None]

    def source(self, i: int) -> str:
        """The path that sample `i` was packed from, relative to the packed folder; "" where the file carries none."""
        i = _position(i, len(self))
        v = int(np.searchsorted(self._volume_first, self.block_of[i], "right")) - 1
        return self._volumes[v].extension.source_path(i - int(self.block_first[self._volume_first[v]]))

    def clone(self) -> DtsReader:
        """Another handle on the same set: shares the tables, opens the files anew (one clone per IO worker)."""
        copy = object.__new__(DtsReader)
        copy.__dict__.update(self.__dict__)
        copy._volumes = tuple(
            Volume(volume.source.clone(), volume.header, volume.extension) for volume in self._volumes
        )
        return copy

    def take_traffic(self) -> Traffic:
        """What the handles of this reader read over a network since it was last asked."""
        total = Traffic()
        for volume in self._volumes:
            if (counted := volume.source.take_traffic()) is not None:
                total.add(counted)
        return total

    def facts(self) -> dict[str, Any]:
        """What `trainload info` shows, as JSON values."""
        return facts_of(self, self._volumes)

    def verify(self, *, decode: Decoder | None = None, decode_all: bool = False, jobs: int = 1) -> Report:
        """Check every byte of the files, as `trainload verify` does; damage is in the Report, not raised."""
        return verify_volumes(self.paths, decode=decode, decode_all=decode_all, jobs=jobs)

    def close(self) -> None:
        """Close the files; closing twice is fine. Buffers and views that were handed out stay valid."""
        for volume in self._volumes:
            volume.source.close()

    def _locate(self, k: int) -> tuple[Volume, int]:
        """The volume of block `k` of the set, and the block's offset in that file."""
        v = int(np.searchsorted(self._volume_first, k, "right")) - 1
        volume = self._volumes[v]
        return volume, volume.header.header_bytes + (k - int(self._volume_first[v])) * BLOCK_SIZE

    def __enter__(self) -> DtsReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[DtsReader], tuple[tuple[str, ...]], dict[str, frozenset[str]]]:
        return DtsReader, (self.paths,), {"verified_files": self.verified_files}

    def __repr__(self) -> str:
        return in_one_line("DtsReader", self.path, self._shown())

    def _repr_html_(self) -> str:
        return in_html("DtsReader", self.path, self._shown(), self.class_names)

    def _shown(self) -> dict[str, str]:
        return {
            "volumes": f"{len(self.paths):,}" if len(self.paths) > 1 else "",
            "samples": f"{len(self):,}",
            "classes": f"{self.header.num_classes:,}",
            "blocks": f"{self.num_blocks:,}",
            "level": f"LV{self.level}",
            "size": size_text(sum(header.total_bytes for header in self.headers)),
        }


def _of_all_volumes(tables: Sequence[NDArray[np.uint32] | None]) -> NDArray[np.uint32] | None:
    """One table of the whole set; None where a volume carries none."""
    found = [table for table in tables if table is not None]
    return np.concatenate(found) if len(found) == len(tables) else None


def _position(i: int, count: int) -> int:
    if not -count <= i < count:
        raise IndexError(f"{i} is outside 0 to {count - 1}")
    return int(i) + count if i < 0 else int(i)
