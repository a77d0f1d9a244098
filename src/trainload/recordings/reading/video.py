"""Video streams (H.264, H.265, AV1, VP9) through PyAV: the only importer of `av`, the extra `video`.

Packets are decoded in the order in which they arrived, and every picture carries the position of its own packet through
the decoder. So a stream with B-frames, whose pictures are shown in another order than they are decoded in, gives the
picture of the time that was asked for, or an error where its times cannot be those of its pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import av
from av.video.frame import PictureType

from trainload.errors import SampleError
from trainload.recordings.reading.frame import Frame
from trainload.recordings.reading.picture_order import MAX_DELAY, PictureOrder, WrongOrderError
from trainload.recordings.reading.stream_frames import StreamFrames

_H264_IDR = 5
_LEADING = range(6, 10)  # H.265: RADL_N, RADL_R, RASL_N, RASL_R
_LED = (16, 17, 19, 21)  # key frames that these may follow: BLA_W_LP, BLA_W_RADL, IDR_W_RADL, CRA
_CODEC_NAMES = {"h264": "h264", "h265": "hevc", "hevc": "hevc", "av1": "libdav1d", "vp9": "vp9"}


class Picture(NamedTuple):
    """A picture and the position of its packet. between: it is a B picture, made from one before and one after it."""

    position: int
    between: bool
    image: Any


class VideoDecoder:
    """Decodes packets of one elementary stream (Annex B for H.264 and H.265), fed in the order of decoding.

    patient: hold pictures back as long as the standard lets an encoder reorder them, where the stream does not say how
    far it does.
    """

    def __init__(self, encoding: str, *, patient: bool = False) -> None:
        name = _CODEC_NAMES[encoding]
        self._is_h265 = name == "hevc"
        self._context: Any = av.CodecContext.create(name, "r")
        self._context.thread_type = "SLICE"  # frame threads would hold pictures back
        if name == "hevc":
            self._context.options = {"err_detect": "explode"}  # a missing reference is an error, not made up
        elif patient and name == "h264":
            self._context.options = {"strict": "strict"}

    def is_leading(self, data: memoryview) -> bool:
        """True for a picture that follows a key frame and is shown before it (H.265: RADL and RASL)."""
        return self._is_h265 and any(kind in _LEADING for kind in _units(data, shift=1, mask=63))

    def may_lead(self, frame: Frame) -> bool:
        """True for a key frame whose next packet has to be looked at: that may be a leading one."""
        return self._is_h265 and frame.key and any(kind in _LED for kind in _units(frame.data, shift=1, mask=63))

    def decode(self, data: memoryview, position: int) -> Iterator[Picture]:
        """The pictures that this packet brings out. Raises ValueError for bytes that do not decode."""
        packet = av.Packet(bytes(data))
        packet.pts = position
        return self._decode(packet)

    def flush(self) -> Iterator[Picture]:
        """The pictures that were held back."""
        return self._decode(None)

    def _decode(self, packet: Any) -> Iterator[Picture]:
        try:
            images = self._context.decode(packet)
        except av.FFmpegError as error:
            raise ValueError(f"the video does not decode: {error}") from error
        for image in images:
            if image.pts is not None:
                between = not self._is_h265 and image.pict_type == PictureType.B  # H.265 has B pictures of earlier ones
                yield Picture(image.pts, between, image)


def _units(data: memoryview, *, shift: int, mask: int) -> Iterator[int]:
    """The types of the NAL units of a packet (ITU-T H.264 and H.265, 7.3.1 and annex B)."""
    raw, place = bytes(data), -1
    while (place := raw.find(b"\0\0\1", place + 1)) >= 0 and place + 3 < len(raw):
        yield (raw[place + 3] >> shift) & mask


def decode_video(frames: StreamFrames, position: int, read: Callable[[int], Frame], path: str) -> Frame:
    """The frame at `position` with `decoded` set: uint8 (h, w, 3) RGB. `read` gives the frame at a position.

    Raises SampleError where there is no key frame, a packet before it is missing or does not decode, and where the
    stream has B-frames and times that are not those of its pictures.
    """
    about: dict[str, Any] = {"sample": position, "source": frames.info.name, "path": path}
    start = frames.key_frame(position)
    while start is not None and frames.number(start) > frames.number(position):
        start = frames.key_frame(start - 1) if start else None
    if start is None:
        raise SampleError("no key frame lies at or before it", **about)
    encoding = frames.info.encoding.lower()
    if start == position and encoding == "h264" and _H264_IDR not in _units(read(start).data, shift=0, mask=31):
        before = frames.key_frame(start - 1) if start else None  # what is shown before it may follow it (open GOP)
        start = start if before is None or frames.number(before) > frames.number(start) else before
    try:
        try:
            frame, image = _decode_from(start, position, frames, read, VideoDecoder(encoding))
        except WrongOrderError:  # perhaps only because the decoder was not told how far pictures are reordered
            patient = VideoDecoder(encoding, patient=True)
            frame, image = _decode_from(start, position, frames, read, patient)
    except ValueError as error:
        raise SampleError(str(error), **about) from error
    if image is None:
        raise SampleError("the decoder gave nothing", **about)
    return frame._replace(decoded=image.to_ndarray(format="rgb24"))


def _decode_from(
    start: int, position: int, frames: StreamFrames, read: Callable[[int], Frame], decoder: VideoDecoder
) -> tuple[Frame, Any]:
    """The frame at `position` and its picture, None where the decoder gave none. Raises ValueError, WrongOrderError."""
    order, found, wanted, image = PictureOrder(), None, None, None

    def take(pictures: Iterator[Picture]) -> None:
        nonlocal image
        for picture in pictures:
            order.shown(picture.position, between=picture.between)
            if picture.position == position:
                image = picture.image

    for at in frames.in_arrival_order(start):
        if order.last_fed is not None and frames.number(at) > frames.number(order.last_fed) + 1:
            if wanted is None:
                lost = frames.number(at) - frames.number(order.last_fed) - 1
                raise ValueError(f"{lost:,} frames between its key frame and it are missing, so it cannot be decoded")
            break
        frame = read(at)
        if at == position:
            found, wanted = frame, order.fed_count
        order.fed(at, leading=decoder.is_leading(frame.data))
        take(decoder.decode(frame.data, at))
        if wanted is not None and image is not None and order.is_settled(position) and not decoder.may_lead(frame):
            break
        if wanted is not None and order.fed_count > wanted + MAX_DELAY:
            break
    if image is None or not order.is_settled(position):
        take(decoder.flush())
    assert found is not None  # `start` arrived before it
    return found, image
