"""Streams of key and delta frames (video): the frame that is asked for, decoded forward from its last key frame.

A Decoder is made per request and is fed the key frame and every frame after it. The container knows no codec of its own
here: whoever has one registers it by the encoding that the stream table names.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from numpy.typing import NDArray

from trainload.errors import SampleError, UsageError
from trainload.recordings.reading.frame import Frame
from trainload.recordings.reading.stream_frames import StreamFrames


class Decoder(Protocol):
    """Decodes the frames of one delta stream in order."""

    def decode(self, data: memoryview) -> NDArray[Any] | None:
        """The picture or array after this frame, or None where the encoding holds it back."""

    def flush(self) -> NDArray[Any] | None:
        """The last picture that was held back, or None."""


_DECODERS: dict[str, Callable[[], Decoder]] = {}
_VIDEO_ENCODINGS = ("h264", "h265", "hevc", "av1", "vp9")


def register_decoder(encoding: str, make: Callable[[], Decoder]) -> None:
    """Make `read(..., decode=True)` use `make()` for streams of this encoding; the last registration counts."""
    _DECODERS[encoding] = make


def decoder_for(encoding: str) -> Decoder:
    """A new Decoder of that encoding. Raises UsageError where none is registered."""
    if encoding in _DECODERS:
        return _DECODERS[encoding]()
    raise UsageError(f"no decoder is registered for the encoding {encoding!r}; see trainload.register_decoder")


def decode_forward(frames: StreamFrames, position: int, read: Callable[[int], Frame], path: str) -> Frame:
    """The frame at `position` with `decoded` set; a delta stream is read and decoded from its last key frame on.

    `read` gives the frame at a position. Raises SampleError where there is no key frame or a payload does not decode,
    UsageError where the extra `video` is missing.
    """
    encoding = frames.info.encoding.lower()
    if encoding in _DECODERS:
        return _decode_by_registered(encoding, frames, position, read, path)
    if encoding in _VIDEO_ENCODINGS:
        try:
            video = import_module("trainload.recordings.reading.video")
        except ImportError as error:
            raise UsageError(f"decoding {encoding} needs PyAV: pip install 'trainload[video]'") from error
        found: Frame = video.decode_video(frames, position, read, path)
        return found
    frame = read(position)
    return frame._replace(decoded=frame.array())


def _decode_by_registered(
    encoding: str, frames: StreamFrames, position: int, read: Callable[[int], Frame], path: str
) -> Frame:
    start = frames.key_frame(position)
    if start is None:
        raise SampleError("no key frame lies at or before it", sample=position, source=frames.info.name, path=path)
    decoder, decoded = decoder_for(encoding), None
    try:
        for at in range(start, position + 1):
            frame = read(at)
            decoded = decoder.decode(frame.data)
        decoded = decoder.flush() if decoded is None else decoded
    except ValueError as error:
        raise SampleError(str(error), sample=position, source=frames.info.name, path=path) from error
    if decoded is None:
        raise SampleError("the decoder gave nothing", sample=position, source=frames.info.name, path=path)
    return frame._replace(decoded=decoded)
