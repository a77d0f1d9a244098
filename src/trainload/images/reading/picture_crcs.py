"""The CRC-32 of every picture of an open set, of the bytes as they are now: two copies of a set compare by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from isal import isal_zlib

from trainload.images.reading.arrays import ArrayReader
from trainload.images.reading.class_folders import FolderReader
from trainload.images.reading.dts import DtsReader


class PictureCrc(NamedTuple):
    """id: in the set. block: that it lies in, None for a file of its own. size: bytes. crc: CRC-32 of these."""

    id: int
    block: int | None
    label: int
    size: int
    crc: int


def picture_crcs(reader: DtsReader | ArrayReader | FolderReader) -> Iterator[PictureCrc]:
    """Every picture in the order of the set; reads all of it, through the memory of one block or picture.

    Compares with nothing: that is what `verify` does. Raises OSError, FormatError where a file ends early.
    """
    if isinstance(reader, DtsReader):
        buffer = np.empty(reader.block_size, np.uint8).data
        for k in range(reader.num_blocks):
            for sample in reader.readinto_block(k, buffer):
                yield PictureCrc(sample.id, k, sample.label, len(sample.data), isal_zlib.crc32(sample.data))
        return
    block = 0 if isinstance(reader, ArrayReader) else None
    for n in range(len(reader)):
        data = reader[n].data.cast("B")
        yield PictureCrc(n, block, int(reader.labels[n]), len(data), isal_zlib.crc32(data))
