"""Is a JPEG or PNG whole? A recorder that was cut off leaves the first half of its last picture, or zeros.

Source: PNG (ISO/IEC 15948), 5.3 chunk layout; JPEG (ITU-T T.81), B.1.1 markers. Nothing is decoded.
"""

from __future__ import annotations

from isal import isal_zlib

from trainload import _core

_PNG = b"\x89PNG\r\n\x1a\n"
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, b"\xff\xd9"


def what_is_missing(extension: str, data: bytes) -> str:
    """ "" for a whole picture and for files of other kinds, else what is wrong, in words. extension: ".png", ..."""
    if extension == ".png":
        return _png_damage(data)
    if extension in (".jpg", ".jpeg"):
        return _jpeg_damage(data)
    return ""


def _png_damage(data: bytes) -> str:
    if not data.startswith(_PNG):
        return "no PNG"
    place = len(_PNG)
    while place + 12 <= len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        kind, end = data[place + 4 : place + 8], place + 12 + size
        if end > len(data):
            break
        if isal_zlib.crc32(memoryview(data)[place + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            return f"a PNG whose {kind.decode('latin-1')!r} chunk is damaged"
        if kind == b"IEND":
            return ""
        place = end
    return "a PNG that ends early"


def _jpeg_damage(data: bytes) -> str:
    """The end marker must lie behind the start of the first scan: a thumbnail before that has one of its own."""
    if not data.startswith(b"\xff\xd8"):
        return "no JPEG"
    for marker, start, _ in _core.JpegSegments(data):
        if marker == _START_OF_SCAN:
            return "" if data.rfind(_END_OF_IMAGE) > start else "a JPEG that ends early"
    return "a JPEG that ends before its picture"
