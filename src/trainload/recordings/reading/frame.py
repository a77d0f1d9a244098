"""One frame of a recording: what the index says of it, its bytes, and the array that these bytes are."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.errors import SampleError
from trainload.formats.printable import printable
from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import (
    BYTE_OFFSET,
    CODEC_MASK,
    FLAGS,
    FRAME_ENCRYPTED,
    HARDWARE_TIME,
    KEY_FRAME,
    LATE,
    SHUFFLED,
    STREAM_INDEX,
    Entry,
)
from trainload.recordings.format.layouts import without_gaps
from trainload.recordings.format.payload import decode_payload
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.pictures import PICTURE_ENCODINGS, decode_picture

_crc32 = isal_zlib.crc32
_new = tuple.__new__  # half the cost of Frame(...), which counts for a frame of 100 bytes
_NOT_AS_IT_IS = CODEC_MASK | SHUFFLED | FRAME_ENCRYPTED


class PayloadFile(Protocol):
    """What frames are read from: a finished file, or one that is still being written."""

    path: str
    checks_frames: bool  # compare each payload's CRC-32
    unpacks_frames: bool  # codec bits mean something

    def read(self, offset: int, size: int) -> memoryview: ...


class Frame(NamedTuple):
    """One frame. stream: its name. stream_index: its number within the stream; a gap means lost frames.

    timestamp_ns: acquisition time. flags: of the index entry. data: the payload, unpacked, at an address that is a
    multiple of 64; an uncompressed payload is a view of the memory it was read into. info: the stream.
    decoded: the picture or array that `decode=True` made.
    """

    stream: str
    stream_index: int
    timestamp_ns: int
    flags: int
    data: memoryview
    info: StreamInfo
    decoded: NDArray[Any] | None = None

    def __repr__(self) -> str:
        about = f"{len(self.data):,} bytes of {printable(self.info.encoding)}"
        marks = "".join(f", {name}" for name in ("key", "late") if getattr(self, name))
        decoded = "" if self.decoded is None else f", decoded {self.decoded.dtype} {self.decoded.shape}"
        name = printable(self.stream)
        return f"Frame({name} number {self.stream_index} at {self.timestamp_ns} ns, {about}{marks}{decoded})"

    @property
    def key(self) -> bool:
        """True for a frame that decodes without the frames before it."""
        return bool(self.flags & KEY_FRAME)

    @property
    def hardware_time(self) -> bool:
        """True where the sensor stamped the frame, False where the host did."""
        return bool(self.flags & HARDWARE_TIME)

    @property
    def late(self) -> bool:
        """True where the frame arrived after its window was written."""
        return bool(self.flags & LATE)

    def array(self) -> NDArray[Any]:
        """The payload as the stream's type says: a view, without a copy; a JPEG or PNG is decoded to uint8 (h, w, 3).

        Structured types give (n,), without gaps between their fields; plain ones the stream's shape, (n, 4) for
        instance; payloads with padded rows or big-endian numbers are copied; a stream without a type gives uint8 (n,).
        Raises FormatError where the payload is not a whole number of elements, SampleError for a picture
        that does not decode.
        """
        if self.decoded is not None:
            return self.decoded
        if self.info.is_opaque and self.info.encoding.lower() in PICTURE_ENCODINGS:
            try:
                return decode_picture(self.data)
            except ValueError as error:
                raise SampleError(str(error), sample=self.stream_index, source=self.stream) from error
        try:
            if self.info.layout is not None:
                return without_gaps(self.info.layout.array(self.data))
            elements = np.frombuffer(self.data, np.uint8 if self.info.dtype is None else self.info.dtype)
            shaped = elements if self.info.dtype is None or self.info.packed else elements.reshape(self.info.shape)
            return without_gaps(shaped)
        except ValueError as error:
            expected = self.info.layout or f"{self.info.dtype} of shape {self.info.shape}"
            raise rules.FRAME_ELEMENTS.broken(
                field=f"stream {self.stream}",
                offset=None,
                found=f"{len(self.data):,} bytes",
                expected=expected,
            ) from error


def check_crc(entry: Entry, stored: memoryview, stream: str, path: str) -> None:
    """Raise FormatError unless the stored bytes have the CRC-32 of their index entry."""
    _, _, number, _, offset, _, expected = entry
    found = _crc32(stored)
    if found != expected:
        raise rules.FRAME_CRC.broken(
            number=number,
            stream=stream,
            field="payload",
            offset=offset,
            found=f"{found:#010x}",
            expected=f"{expected:#010x}",
            path=path,
        )


def open_frame(entry: Entry, stored: memoryview, info: StreamInfo, file: PayloadFile) -> Frame:
    """The frame of an index entry of `file` whose stored bytes were read: checked if the file is, and unpacked.

    Raises FormatError for a CRC-32 that does not match and for a payload that does not unpack.
    """
    _, flags, number, time, _, _, crc = entry
    if file.checks_frames and _crc32(stored) != crc:
        check_crc(entry, stored, info.name, file.path)
    if flags & _NOT_AS_IT_IS and file.unpacks_frames:
        stored = _unpack(entry, stored, info, file.path)
    return _new(Frame, (info.name, number, time, flags, stored, info, None))


def _unpack(entry: Entry, stored: memoryview, info: StreamInfo, path: str) -> memoryview:
    try:
        return decode_payload(stored, entry[FLAGS], info.shuffle)
    except ValueError as error:
        raise rules.FRAME_UNPACK.broken(
            number=entry[STREAM_INDEX],
            stream=info.name,
            field="payload",
            offset=entry[BYTE_OFFSET],
            found=str(error),
            expected="data that the codec of its flags understands",
            path=path,
        ) from error
