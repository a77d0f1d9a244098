"""H.264 and H.265 elementary streams (Annex B): where each picture's bytes lie, and which decode by themselves.

Source: ITU-T H.264 and H.265, annex B and the order of NAL units in an access unit (7.4.1.2.3, 7.4.2.4.4).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainload.storage.file import FileSource

VIDEO_ENCODINGS = ("h264", "h265", "hevc")
_START = b"\0\0\1"
_STEP = 4 << 20
_H265_OPENS = frozenset((32, 33, 34, 35, 39))  # parameter sets, delimiter, prefix SEI: they begin an access unit
_H265_KEYS = range(16, 24)
_H264_KEY = 5


class PictureUnit(NamedTuple):
    """The bytes of one picture with the parameter sets before it. key: it decodes without the pictures before it."""

    offset: int
    size: int
    key: bool


def is_key_frame(encoding: str, data: bytes | memoryview) -> bool:
    """True where the picture decodes by itself; other encodings than H.264 and H.265 always do."""
    if encoding not in VIDEO_ENCODINGS:
        return True
    raw, place = bytes(data), -1
    while (place := raw.find(_START, place + 1)) >= 0 and place + 3 < len(raw):
        if encoding == "h264":
            if raw[place + 3] & 31 == _H264_KEY:
                return True
        elif (raw[place + 3] >> 1) & 63 in _H265_KEYS:
            return True
    return False


class PictureUnits(Sequence[PictureUnit]):
    """Pictures of one file in its order, 9 bytes each. keys: bool[n], which decode by themselves."""

    def __init__(self, starts: NDArray[np.int64], keys: NDArray[np.bool_], end: int) -> None:
        self.keys = keys
        self._bounds = np.append(starts, end)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        start, end = self._bounds[place : place + 2].tolist()
        return PictureUnit(start, end - start, bool(self.keys[place]))


def h265_pictures(path: Path) -> PictureUnits:
    """The pictures of a raw H.265 file, in the order of the file; reads it once, 4 MB at a time."""
    starts, keys = array("q"), bytearray()
    with FileSource(path) as file:
        after_slice = True  # the first unit of the file opens a picture
        for offset, kind, first_slice in _units(file):
            is_slice = kind < 32
            opens = first_slice if is_slice else kind in _H265_OPENS
            if after_slice and opens:
                starts.append(offset)
                keys.append(False)
                after_slice = False
            if is_slice and keys:
                keys[-1] = keys[-1] or kind in _H265_KEYS
                after_slice = True
        return PictureUnits(np.array(starts, np.int64), np.array(keys, np.bool_), file.size)


def _units(file: FileSource) -> Iterator[tuple[int, int, bool]]:
    """(offset of the start code with its leading zero, type, first slice of its picture) of every H.265 NAL unit."""
    for place in range(0, file.size, _STEP):
        before = min(place, 1)  # the zero that leads a start code may lie in the block before
        block = file.read_at(place - before, min(before + _STEP + 8, file.size - place + before))
        found = block.find(_START, before)
        while 0 <= found < before + _STEP and found + 5 < len(block):
            leading_zero = found > 0 and block[found - 1] == 0
            offset = place - before + found - leading_zero
            yield offset, (block[found + 3] >> 1) & 63, bool(block[found + 5] & 0x80)
            found = block.find(_START, found + 3)
