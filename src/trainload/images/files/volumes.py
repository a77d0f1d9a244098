"""The volumes of one DTS set: opened, checked against each other, their block headers turned into tables.

Knows nothing of samples' payload: that is images/reading/dts.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainload.formats.fields import Checker
from trainload.images.files.extension import Extension
from trainload.images.format import rules
from trainload.images.format.block import BlockHeader
from trainload.images.format.dts import BLOCK_SIZE, HEADER_BYTES_USED, DtsHeader
from trainload.storage.location import open_source
from trainload.storage.source import Source

# What all volumes of one set must agree on.
_SHARED_FIELDS = (
    "dataset_type",
    "is_training",
    "compress_level",
    "num_classes",
    "num_volumes",
    "total_blocks",
    "block_header_size",
)


@dataclass(frozen=True, slots=True)
class Volume:
    """One open file of a set: its bytes, its header, its extension."""

    source: Source
    header: DtsHeader
    extension: Extension


@dataclass(frozen=True, slots=True)
class Tables:
    """Where every picture of a set lies: one row per sample, in sample order.

    labels: int32 [n]. sizes: int64 [n], bytes. offset_in_block: uint32 [n], bytes from the start of the block.
    block_first: int64 [num_blocks + 1], first sample of each block of the set, closed by n.
    """

    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    offset_in_block: NDArray[np.uint32]
    block_first: NDArray[np.int64]


def read_header(source: Source) -> DtsHeader:
    """The checked header of an open DTS file. Raises FormatError."""
    head = source.read_at(0, min(HEADER_BYTES_USED, source.size))
    return DtsHeader.from_bytes(head, file_size=source.size, path=source.path)


def open_volumes(paths: Sequence[str]) -> tuple[Volume, ...]:
    """Open all files of a set and give them in the order of volume_id; on an error none stays open.

    Raises FormatError where the files are not exactly the volumes of one set.
    """
    sources: list[Source] = []
    try:
        for path in paths:
            sources.append(open_source(path))
        headers = [read_header(source) for source in sources]
        check_volume_set(headers, paths)
        extensions = [Extension.read(source, header) for source, header in zip(sources, headers)]
        check_same_set(extensions, paths)
        volumes = [Volume(*parts) for parts in zip(sources, headers, extensions)]
        return tuple(sorted(volumes, key=lambda volume: volume.header.volume_id))
    except BaseException:
        for source in sources:
            source.close()
        raise


def check_volume_set(headers: Sequence[DtsHeader], paths: Sequence[str]) -> None:
    """Raise FormatError unless the files are volumes 0 to num_volumes - 1 of one set, with all its blocks."""
    first = headers[0]
    for header, path in zip(headers, paths):
        for field in _SHARED_FIELDS:
            found, expected = getattr(header, field), getattr(first, field)
            Checker(path).require(
                found == expected,
                rules.VOLUME_FIELDS,
                field=field,
                offset=None,
                found=found,
                expected=f"{expected} as in {paths[0]}",
            )
    check = Checker(paths[0])
    ids = sorted(header.volume_id for header in headers)
    check.require(
        ids == list(range(first.num_volumes)),
        rules.VOLUME_ONCE,
        field="volume_id",
        offset=60,
        found=f"volumes {_some(ids)}",
        expected=f"volumes 0 to {first.num_volumes - 1}",
    )
    blocks = sum(header.num_blocks for header in headers)
    check.require(
        blocks == first.total_blocks,
        rules.VOLUME_BLOCKS,
        field="total_blocks",
        offset=64,
        found=f"{first.total_blocks:,}",
        expected=f"{blocks:,}",
    )


def check_same_set(extensions: Sequence[Extension], paths: Sequence[str]) -> None:
    """Raise FormatError where the files carry the UUIDs of different sets."""
    first = extensions[0].uuid()
    for extension, path in zip(extensions, paths):
        Checker(path).require(
            extension.uuid() == first,
            rules.VOLUME_UUID,
            field="UUID",
            offset=None,
            found=extension.uuid() or "none",
            expected=f"{first or 'none'} as in {paths[0]}",
        )


def _some(ids: list[int]) -> str:
    text = ", ".join(map(str, ids[:8]))
    return text if len(ids) <= 8 else f"{text}, ... ({len(ids)} files)"


def read_tables(volumes: Sequence[Volume]) -> Tables:
    """From each file's table of samples; of a file without one from its block headers, one small read for each.

    No Python object per sample. Raises FormatError for what breaks the spec and for counts that do not add up.
    """
    tables = [_table_of(volume) for volume in volumes]
    parts = [_blocks_of(volume) if table is None else table for volume, table in zip(volumes, tables)]
    counts = np.concatenate([part.counts for part in parts])
    return Tables(
        labels=np.concatenate([part.labels for part in parts]).astype(np.int32),
        sizes=np.concatenate([part.sizes for part in parts]).astype(np.int64),
        offset_in_block=np.concatenate([part.offsets for part in parts]),
        block_first=np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))),
    )


class _Part(NamedTuple):
    """One volume's part of the tables. counts: int64, samples of each block."""

    counts: NDArray[np.int64]
    labels: NDArray[np.integer]
    sizes: NDArray[np.integer]
    offsets: NDArray[np.uint32]


def _table_of(volume: Volume) -> _Part | None:
    """What the file's table of samples says, None where it has none."""
    found, counts = volume.extension.sample_table(), volume.extension.block_counts()
    if found is None or counts is None:
        return None
    table, labels = found
    _check_total(volume, counts.astype(np.int64))
    offsets = table.offsets(counts, volume.header, path=volume.source.path)
    return _Part(counts.astype(np.int64), labels, table.sizes, offsets)


def _blocks_of(volume: Volume) -> _Part:
    """What the block headers say."""
    blocks = read_block_headers(volume)
    return _Part(
        np.array([len(block.sizes) for block in blocks], np.int64),
        _join([block.labels for block in blocks]),
        _join([block.sizes for block in blocks]),
        _join([block.offsets for block in blocks]),
    )


def read_block_headers(volume: Volume) -> list[BlockHeader]:
    """The checked block headers of one volume. Raises FormatError also where they hold another number of samples."""
    header, path = volume.header, volume.source.path
    starts = range(header.header_bytes, header.header_bytes + header.num_blocks * BLOCK_SIZE, BLOCK_SIZE)
    heads = volume.source.read_many([(offset, header.block_header_size) for offset in starts])
    blocks = [
        BlockHeader.from_bytes(head, header, k, offset=offset, path=path)
        for k, (head, offset) in enumerate(zip(heads, starts))
    ]
    counts = np.array([len(block.sizes) for block in blocks], np.int64)
    volume.extension.check_block_counts(counts)
    _check_total(volume, counts)
    return blocks


def _check_total(volume: Volume, counts: NDArray[np.int64]) -> None:
    if counts.sum() != volume.header.num_samples:
        raise rules.NUM_SAMPLES.broken(
            field="num_samples",
            offset=52,
            found=f"{volume.header.num_samples:,}",
            expected=f"{int(counts.sum()):,}",
            path=volume.source.path,
        )


def _join(arrays: list[NDArray[np.uint32]]) -> NDArray[np.uint32]:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.uint32)
