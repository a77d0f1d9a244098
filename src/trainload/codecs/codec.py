"""What a codec is. To add one: write a file beside this one that makes a Codec, and name it in table.py.

Its id must be assigned first, in docs/spec/hyperframe.md and ids.py; readers refuse ids that are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Codec:
    """A byte codec of HFRM payloads.

    id: the number in an index entry's flags (docs/spec/hyperframe.md, section 3); several names may share one.
    levels: what `encode` takes. encode(data, level) gives the stored bytes, from which decode(stored, limit) gives the
    data back: at most `limit` bytes, or a ValueError; memory must follow the real output or the stored size, never a
    stated size alone. Both are called from many threads at once and let go of the GIL while they work.
    long_bytes: stored bytes from which decoding takes long enough to be worth handing to another thread.
    """

    id: int
    name: str
    levels: range
    default_level: int
    long_bytes: int
    encode: Callable[[bytes | memoryview, int], bytes]
    decode: Callable[[bytes | memoryview, int], bytes]
