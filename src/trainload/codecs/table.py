"""Which codec a name or an id means. The one place that names every codec."""

from __future__ import annotations

from trainload.codecs.codec import Codec
from trainload.codecs.lz4_block import LZ4, LZ4HC
from trainload.codecs.zstd import ZSTD
from trainload.errors import UsageError

CODECS: tuple[Codec, ...] = (LZ4, LZ4HC, ZSTD)
NONE = "none"

_BY_NAME = {codec.name: codec for codec in CODECS}
CODEC_BY_ID = {codec.id: codec for codec in reversed(CODECS)}


def codec_by_name(text: str) -> tuple[Codec, int] | None:
    """The codec and level that "lz4", "lz4hc", "zstd" or, with a level, "zstd:9" ask for; None for "none".

    Raises UsageError for an unknown name or a level that the codec does not have.
    """
    if text == NONE:
        return None
    name, _, level_text = text.partition(":")
    codec = _BY_NAME.get(name)
    if codec is None:
        raise UsageError(f"a codec is one of {', '.join((NONE, *_BY_NAME))}, not {text!r}")
    level = int(level_text) if level_text.isascii() and level_text.isdigit() else None if level_text else -1
    if level == -1:
        return codec, codec.default_level
    if level is None or level not in codec.levels:
        raise UsageError(f"{name} has levels {codec.levels[0]} to {codec.levels[-1]}, not {level_text!r}")
    return codec, level


def codec_by_id(codec_id: int) -> Codec:
    """The codec of an index entry. Raises ValueError for an id that no codec has (0 is no codec)."""
    codec = CODEC_BY_ID.get(codec_id)
    if codec is None:
        raise ValueError(f"no codec has the id {codec_id}")
    return codec
