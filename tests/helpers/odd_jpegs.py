"""Odd and broken JPEGs, made; Pillow says what each is worth."""

from __future__ import annotations

import io
import struct
from typing import Any

from PIL import Image

from jpeg_writer import SAMPLINGS, make_jpeg

START_OF_FRAME, QUANTISATION, HUFFMAN, START_OF_SCAN = b"\xff\xc0", b"\xff\xdb", b"\xff\xc4", b"\xff\xda"
COMMENT = b"\xff\xfe"


def odd_jpegs() -> dict[str, bytes]:
    """Name and bytes: every sampling, mode and process that libjpeg reads, and damage of each part of a file."""
    plain = make_jpeg(90, 70, "4:2:0", restart_interval=6)
    picture = Image.open(io.BytesIO(plain)).convert("RGB")
    progressive = _encoded(picture, progressive=True)
    found = {f"sampling {name}": make_jpeg(61, 47, name, seed=3) for name in SAMPLINGS}
    found |= {f"{width}x{height}": make_jpeg(width, height, "4:2:0") for width, height in ((1, 1), (2, 17), (16, 16))}
    found |= {
        "progressive": progressive,
        "gray": _encoded(picture.convert("L")),
        "cmyk": _encoded(picture.convert("CMYK")),
        "rgb": _encoded(picture, keep_rgb=True),
        "optimized": _encoded(picture, optimize=True, quality=5),
        "no APP0": plain,
        "long comment": plain[:2] + COMMENT + struct.pack(">H", 65_535) + b"\xff\xd9" * 32_766 + b"x" + plain[2:],
        "fill bytes": plain.replace(START_OF_FRAME, b"\xff\xff\xff" + START_OF_FRAME, 1),
        "garbage between segments": plain.replace(HUFFMAN, b"\0\1\2" + HUFFMAN, 1),
        "bytes behind the end": plain + b"\0" * 100 + progressive,
        "no end": plain[:-2],
        "a marker that is missing": plain.replace(b"\xff\xd2", b"", 1),
        "markers in another order": plain.replace(b"\xff\xd1", b"\xff\xd3", 1),
        "half": plain[: len(plain) // 2],
        "half of a progressive": progressive[: len(progressive) // 2],
        "a head alone": plain[: plain.index(START_OF_SCAN)],
        "no quantisation": plain.replace(QUANTISATION, COMMENT, 1),
        "no Huffman tables": plain.replace(HUFFMAN, COMMENT, 1),
        "12 bits": _with_frame(plain, precision=12),
        "no size": _with_frame(plain, height=0, width=0),
        "no height": _with_frame(plain, height=0),
        "huge": _with_frame(plain, height=65_500, width=65_500),
        "arithmetic": plain.replace(START_OF_FRAME, b"\xff\xc9", 1),
        "lossless": plain.replace(START_OF_FRAME, b"\xff\xc3", 1),
        "a segment of length 0": plain[:2] + COMMENT + b"\0\0" + plain[2:],
        "two bytes": plain[:2],
        "one byte": b"\xff",
        "text": b"This is no picture.",
    }
    return found


def _encoded(picture: Image.Image, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, "JPEG", **options)
    return out.getvalue()


def _with_frame(
    encoded: bytes, precision: int | None = None, height: int | None = None, width: int | None = None
) -> bytes:
    """The file with other facts in its frame header."""
    at = encoded.index(START_OF_FRAME) + 4
    facts = zip((precision, height, width), struct.unpack_from(">BHH", encoded, at))
    changed = struct.pack(">BHH", *(was if now is None else now for now, was in facts))
    return encoded[:at] + changed + encoded[at + 5 :]
