"""A frame's data to its stored bytes and back: shuffle and codec as the flags of an index entry say."""

from __future__ import annotations

from trainload.codecs.codec import Codec
from trainload.codecs.shuffle import shuffle, unshuffle
from trainload.codecs.table import CODEC_BY_ID, codec_by_id
from trainload.memory.aligned import aligned_buffer
from trainload.recordings.format.hyperframe import CODEC_MASK, CODEC_SHIFT, FRAME_ENCRYPTED, MAX_FRAME_BYTES, SHUFFLED

LEAST_SAVED = 1 / 16  # less is not worth what unpacking costs each time the frame is read


def encode_payload(data: bytes, codec: Codec, level: int, element_size: int) -> tuple[bytes, int]:
    """The stored bytes and the index flags that tell how to read them.

    element_size: of the byte shuffle, 0 for none. Data that does not shrink by LEAST_SAVED is stored as it is, with no
    flags.
    """
    stored = codec.encode(shuffle(data, element_size) if element_size else data, level)
    if len(stored) >= len(data) or len(stored) > (1 - LEAST_SAVED) * len(data):
        return data, 0
    return stored, codec.id << CODEC_SHIFT | (SHUFFLED if element_size else 0)


def takes_long(flags: int, stored_bytes: int) -> bool:
    """True where so many stored bytes, of index flags like these, are worth handing to another thread to decode."""
    codec = CODEC_BY_ID.get((flags & CODEC_MASK) >> CODEC_SHIFT)
    return codec is not None and stored_bytes >= codec.long_bytes


def decode_payload(
    stored: bytes | memoryview, flags: int, element_size: int, limit: int = MAX_FRAME_BYTES
) -> memoryview:
    """The frame's data, at most `limit` bytes: a view of `stored` where neither codec nor shuffle was used.

    What was decoded starts at a multiple of 64. flags: of the index entry. element_size: of the stream table. Raises
    ValueError for bytes that do not decode, and for an encrypted frame.
    """
    if flags & FRAME_ENCRYPTED:
        raise ValueError("the frame is encrypted, and no key is known")
    codec_id = (flags & CODEC_MASK) >> CODEC_SHIFT
    data = codec_by_id(codec_id).decode(stored, limit) if codec_id else stored
    if flags & SHUFFLED:
        if element_size < 1:
            raise ValueError("the frame is shuffled, and the stream table gives no element size")
        return unshuffle(data, element_size)
    if not codec_id:
        return memoryview(stored)
    own = aligned_buffer(len(data))
    own[:] = data
    return own
