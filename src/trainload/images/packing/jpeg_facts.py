"""What the markers of a JPEG say, read without decoding: size, depth, coding, sampling, a proper end."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from trainload import _core

SOI = b"\xff\xd8"
EOI = b"\xff\xd9"
_SECOND_SOI, _SOS = 0xD8, 0xDA
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # SOFn, without DHT, JPG, DAC
_PLAIN_FRAMES = (0xC0, 0xC1, 0xC2)  # baseline, extended sequential, progressive Huffman
_FRAME = struct.Struct(">BHHB")  # precision, height, width, components


@dataclass(frozen=True, slots=True)
class JpegFacts:
    """Facts of the first frame. sampling: (horizontal, vertical) per component. frame_marker: 0xC0 + n of SOFn.

    has_end: an EOI stands somewhere after that scan began.
    """

    width: int
    height: int
    precision: int
    sampling: tuple[tuple[int, int], ...]
    frame_marker: int
    has_end: bool

    @property
    def is_plain(self) -> bool:
        """True where every decoder reads it: 8 bits, Huffman coded, baseline, extended or progressive."""
        return self.frame_marker in _PLAIN_FRAMES and self.precision == 8

    @property
    def is_progressive(self) -> bool:
        return self.frame_marker in (0xC2, 0xC6, 0xCA, 0xCE)

    @property
    def is_full_chroma(self) -> bool:
        """True for three components that all have the same sampling (4:4:4)."""
        return len(self.sampling) == 3 and len(set(self.sampling)) == 1


def jpeg_facts(data: bytes) -> JpegFacts | None:
    """The facts, or None where `data` is no JPEG, starts twice, or its markers break off before the first scan."""
    frame: tuple[int, int, int, int, tuple[tuple[int, int], ...]] | None = None
    for marker, start, end in _core.JpegSegments(data, len(data)):
        if marker == _SECOND_SOI:
            return None  # no decoder takes that
        if marker in _FRAMES and frame is None:
            body = start + 4
            if end > len(data) or end - body < _FRAME.size:
                return None
            precision, height, width, count = _FRAME.unpack_from(data, body)
            table = data[body + _FRAME.size : end]
            sampling = tuple(
                (table[n + 1] >> 4, table[n + 1] & 15) for n in range(0, min(3 * count, len(table) - 1), 3)
            )
            frame = (width, height, precision, marker, sampling)
        if marker == _SOS and frame is not None:
            return JpegFacts(*frame[:3], frame[4], frame[3], data.rfind(EOI) >= start)
    return None
