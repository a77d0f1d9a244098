"""The packed names of docs/spec/dts.md, section 8: names in one Zstandard frame, unpacked with a bound."""

from __future__ import annotations

import numpy as np

from trainload.codecs.compression import zstd_decompress
from trainload.formats.fields import Checker
from trainload.formats.limits import MAX_SECTION_BYTES
from trainload.images.classes.class_list import MAX_CLASS_LIST_BYTES
from trainload.images.format import dts, rules

MEAN_NAME_BYTES = 1024  # what names may take in a file of any size


def most_name_bytes(tag: bytes, count: int, file_size: int) -> int:
    """The limit of a section's unpacked names: the file's own size, or MEAN_NAME_BYTES each where that is more."""
    most = MAX_CLASS_LIST_BYTES if tag == dts.TAG_CLASSES else MAX_SECTION_BYTES
    return min(most, max(file_size, count * MEAN_NAME_BYTES))


class Names:
    """NUL-ended UTF-8 names in one buffer: a million of them cost no Python objects."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, n: int) -> str:
        start = int(self._ends[n - 1]) + 1 if n else 0
        return self._data[start : int(self._ends[n])].decode("utf-8", "surrogateescape")


def unpack_names(tag: bytes, body: bytes, count: int, *, file_size: int, path: str) -> Names:
    """The `count` names of a section's body. Raises FormatError for another number, too many bytes, a broken frame."""
    field = tag.decode("ascii")
    try:
        data = zstd_decompress(body, most_name_bytes(tag, count, file_size))
    except ValueError as error:
        raise rules.NAMES_UNPACK.broken(
            field=field, offset=None, found=error, expected=f"{count:,} names", path=path
        ) from error
    found = data.count(0)  # before anything is allocated for that many
    Checker(path).require(
        found == count,
        rules.NAMES_COUNT,
        field=field,
        offset=None,
        found=f"{found:,} names",
        expected=f"{count:,} names",
    )
    return Names(data)
