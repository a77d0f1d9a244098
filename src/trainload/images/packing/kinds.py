"""What a source picture turns out to be, as flags, and what becomes of each kind (docs/spec/dts.md, section 6)."""

from __future__ import annotations

from enum import IntFlag


class Kind(IntFlag):
    """What is worth counting about a picture; 0 is a plain baseline JPEG. Fits 16 bits."""

    NOT_JPEG = 1
    PROGRESSIVE = 2
    GRAY = 4
    FULL_CHROMA = 8
    CMYK = 16
    DEEP = 32
    ORIENTED = 64
    OVERSIZE = 128
    TRUNCATED = 256
    CORRUPT = 512
    TOO_LARGE = 1024
    UNREADABLE = 2048


# name in the summary and the report, fate at level 0, fate at levels 1 to 3
FATES: dict[Kind, tuple[str, str, str]] = {
    Kind.NOT_JPEG: ("not a JPEG", "kept as it is", "becomes a JPEG"),
    Kind.PROGRESSIVE: ("progressive", "kept as it is", "becomes baseline"),
    Kind.GRAY: ("gray", "kept as it is", "stays gray"),
    Kind.FULL_CHROMA: ("4:4:4", "kept as it is", "becomes 4:2:0"),
    Kind.CMYK: ("CMYK or YCCK", "kept as it is", "becomes RGB; with --reference stays CMYK"),
    Kind.DEEP: ("more than 8 bits", "kept where Pillow decodes it to 8 bits", "becomes 8 bits where Pillow can"),
    Kind.ORIENTED: ("EXIF orientation", "kept: the loader decides", "ignored, or applied with --exif apply"),
    Kind.OVERSIZE: ("larger than a block", "re-encoded, or refused with --oversize refuse", "as at level 0"),
    Kind.TRUNCATED: ("truncated", "refused", "refused"),
    Kind.CORRUPT: ("corrupt", "refused where the decoder is asked (see --check)", "refused"),
    Kind.TOO_LARGE: ("too many pixels or bytes", "refused", "refused"),
    Kind.UNREADABLE: ("not readable", "left out", "left out"),
}


class RefusedPictureError(Exception):
    """A picture that cannot go into the set: why, as a kind and as one line. Never leaves the packer."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def names_of(kinds: int) -> list[str]:
    """The report's names of the flags that are set."""
    return [FATES[kind][0] for kind in Kind if kinds & kind]
