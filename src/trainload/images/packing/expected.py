"""Is a source what was published? Compares classes, counts, labels and archives; says all that is missing or broken.

The sizes and CRC-32s of the archives are those that the published exporter of DTS checks its downloads against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from isal import isal_zlib

from trainload.errors import UsageError
from trainload.images.classes.class_list import some
from trainload.images.format import rules
from trainload.images.packing.ilsvrc2012 import wordnet_ids
from trainload.images.packing.official_archives import split_of_archive
from trainload.images.packing.source_files import TarFiles
from trainload.images.packing.sources import PictureTable
from trainload.storage.file import FileSource

_READ_BYTES = 4 << 20
ReadProgress = Callable[[str, int, int], None]  # path, bytes read, bytes in all


@dataclass(frozen=True, slots=True)
class PublishedSplit:
    """What one split is. archive_bytes, archive_crc: of the tar. labels_crc: of the labels, u16, in the list's order.

    per_class: pictures of each class, None where they differ.
    """

    pictures: int
    per_class: int | None
    labels_crc: int | None
    archive_bytes: int
    archive_crc: int


@dataclass(frozen=True, slots=True)
class PublishedSet:
    name: str
    class_names: tuple[str, ...]
    splits: Mapping[str, PublishedSplit]


def published_set(name: str) -> PublishedSet:
    """The facts of a published set. Raises UsageError for one that is not known."""
    if name != "imagenet":
        raise UsageError(f"of the sets of pictures only imagenet is known, not {name}")
    splits = {
        "train": PublishedSplit(1_281_167, None, None, 147_897_477_120, 0x01F6E856),
        "val": PublishedSplit(50_000, 50, 0x9013F944, 6_744_924_160, 0x7C951E53),
    }
    return PublishedSet("ImageNet (ILSVRC2012)", tuple(sorted(wordnet_ids())), splits)


def compare(
    tables: Mapping[str, PictureTable], published: PublishedSet, *, whole: bool, progress: ReadProgress | None = None
) -> tuple[str, ...]:
    """Compare each split with what was published; a line for each, of what was compared.

    tables: by the names of the splits. whole: all splits must be there. Archives are read whole, once all else is
    right. Raises FormatError that lists everything that differs.
    """
    wrong = [f"{split} is missing" for split in published.splits if whole and split not in tables]
    for split, table in tables.items():
        wrong += [f"{split}: {each}" for each in _differences(table, published, published.splits[split])]
    if not wrong:
        for split, table in tables.items():
            if _is_official(table):
                found = _crc_difference(table.files.path, published.splits[split], progress)
                wrong += [f"{split}: {each}" for each in found]
    if wrong:
        raise rules.PUBLISHED.broken(
            name=published.name,
            field="source",
            offset=None,
            found="; ".join(wrong),
            expected="no difference",
            path=next(iter(tables.values())).files.path,
        )
    return tuple(_compared(split, table, published.splits[split]) for split, table in tables.items())


def _is_official(table: PictureTable) -> bool:
    """A tar by another name was made by somebody else, and has other headers and another order."""
    return isinstance(table.files, TarFiles) and split_of_archive(table.files.path) is not None


def _differences(table: PictureTable, published: PublishedSet, split: PublishedSplit) -> Iterator[str]:
    """What differs that costs no reading."""
    names = published.class_names
    counts = np.bincount(table.labels, minlength=len(table.class_names)).tolist()
    found = {name: count for name, count in zip(table.class_names, counts) if count}
    if missing := set(names) - found.keys():
        yield f"{len(missing):,} of {len(names):,} classes are missing ({some(missing)})"
    if more := set(table.class_names) - set(names):
        yield f"{len(more):,} classes are none of its ({some(more)})"
    if len(table) != split.pictures:
        yield f"{len(table):,} pictures, not {split.pictures:,}"
    if split.per_class is not None:
        odd = {f"{name} has {count:,}" for name, count in found.items() if count != split.per_class}
        if odd:
            yield f"{len(odd):,} classes have not {split.per_class:,} pictures ({some(odd)})"
    if not missing and not more:
        yield from _label_differences(table, names, split)
    if _is_official(table):
        size = Path(table.files.path).stat().st_size
        if size != split.archive_bytes:
            yield f"{Path(table.files.path).name} has {size:,} bytes, not {split.archive_bytes:,}"


def _label_differences(table: PictureTable, names: tuple[str, ...], split: PublishedSplit) -> Iterator[str]:
    if table.class_names != names:
        yield "the classes are in another order than that of their names"
        return
    comparable = split.labels_crc is not None and len(table) == split.pictures
    if comparable and isal_zlib.crc32(table.labels.astype("<u2").tobytes()) != split.labels_crc:
        yield "some labels are not those of the development kit"


def _crc_difference(path: str, split: PublishedSplit, progress: ReadProgress | None) -> Iterator[str]:
    crc = file_crc(path, progress)
    if crc != split.archive_crc:
        yield f"{Path(path).name} has the CRC-32 {crc:08x}, not {split.archive_crc:08x}"


def file_crc(path: str, progress: ReadProgress | None = None) -> int:
    """The CRC-32 of a whole file, read in order through one buffer."""
    crc, buffer = 0, bytearray(_READ_BYTES)
    with FileSource(path) as source:
        for at in range(0, source.size, _READ_BYTES):
            part = memoryview(buffer)[: min(_READ_BYTES, source.size - at)]
            source.readinto_at(at, part)
            crc = isal_zlib.crc32(part, crc)
            if progress is not None:
                progress(path, at + len(part), source.size)
    return crc


def _compared(split: str, table: PictureTable, published: PublishedSplit) -> str:
    labels = "" if published.labels_crc is None else ", every label"
    crc = f", CRC-32 {published.archive_crc:08x} of the archive" if _is_official(table) else ""
    return f"{split}: {len(table.class_names):,} classes, {len(table):,} pictures{labels}{crc}"
