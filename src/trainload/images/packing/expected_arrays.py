"""Is a source of MNIST or CIFAR what was published? Says all that is missing or broken.

MNIST is held to the CRC-32s of its four unpacked files, whatever they are packed with. CIFAR is held to size and CRC-32
of its archive where it is read from that, and to its counts of each class; nothing was published of the files in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from isal import isal_zlib

from trainload.errors import UsageError
from trainload.images.format import rules
from trainload.images.packing.array_sources import LabelledPixels, Originals
from trainload.images.packing.expected import file_crc


@dataclass(frozen=True, slots=True)
class PublishedArrays:
    """counts: pictures for training and for test. per_class: the same of each class, None where they differ.

    file_crcs: of the unpacked files. archive, archive_bytes, archive_crc: of the archive, "" where there is none.
    """

    counts: tuple[int, int]
    per_class: tuple[int, int] | None = None
    file_crcs: Mapping[str, int] = field(default_factory=dict)
    archive: str = ""
    archive_bytes: int = 0
    archive_crc: int = 0


_MNIST_CRCS = {
    "train-images-idx3-ubyte": 0xE9F4D8B3,
    "train-labels-idx1-ubyte": 0xE0CB4AD2,
    "t10k-images-idx3-ubyte": 0x91373BDF,
    "t10k-labels-idx1-ubyte": 0x4AB9EFF9,
}
PUBLISHED = {
    "mnist": PublishedArrays((60_000, 10_000), file_crcs=_MNIST_CRCS),
    "cifar10": PublishedArrays((50_000, 10_000), (5_000, 1_000), {}, "cifar-10-binary.tar.gz", 170_052_171, 0xF709D4BA),
    "cifar100": PublishedArrays((50_000, 10_000), (500, 100), {}, "cifar-100-binary.tar.gz", 168_513_733, 0xB2274685),
}


def check_arrays(kind: str, expect: str, originals: Originals, splits: Mapping[bool, LabelledPixels]) -> None:
    """Compare the source with what was published. splits: by whether they are for training.

    Raises UsageError for another set than the one that is packed, FormatError that lists everything that differs.
    """
    if expect != kind:
        raise UsageError(f"a source of {kind} can be compared with {kind} only, not with {expect}")
    published = PUBLISHED[kind]
    wrong = [*_count_differences(published, splits), *_file_differences(published, originals)]
    if wrong:
        raise rules.PUBLISHED.broken(
            name=kind,
            field="source",
            offset=None,
            found="; ".join(wrong),
            expected="no difference",
            path=originals.path,
        )


def _count_differences(published: PublishedArrays, splits: Mapping[bool, LabelledPixels]) -> Iterator[str]:
    for is_training, split in splits.items():
        name, column = ("train", 0) if is_training else ("test", 1)
        count = published.counts[column]
        if len(split.labels) != count:
            yield f"{name}: {len(split.labels):,} pictures, not {count:,}"
        elif published.per_class is not None:
            counts = np.bincount(split.labels)
            odd = int(np.count_nonzero(counts != published.per_class[column]))
            if odd:
                yield f"{name}: {odd:,} classes have not {published.per_class[column]:,} pictures"


def _file_differences(published: PublishedArrays, originals: Originals) -> Iterator[str]:
    for name, expected in published.file_crcs.items():
        crc = isal_zlib.crc32(originals.read(name))
        if crc != expected:
            yield f"{name} has the CRC-32 {crc:08x}, not {expected:08x}"
    path = Path(originals.path)
    if published.archive and path.name == published.archive:
        size = path.stat().st_size
        if size != published.archive_bytes:
            yield f"{path.name} has {size:,} bytes, not {published.archive_bytes:,}"
        elif (crc := file_crc(originals.path)) != published.archive_crc:
            yield f"{path.name} has the CRC-32 {crc:08x}, not {published.archive_crc:08x}"
