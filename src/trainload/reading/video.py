"""Video streams (H.264, H.265, AV1, VP9) through PyAV: the only importer of `av`, the extra `video`."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

_CODEC_NAMES = {"h264": "h264", "h265": "hevc", "hevc": "hevc", "av1": "libdav1d", "vp9": "vp9"}


class VideoDecoder:
    """Decodes packets of one elementary stream (Annex B for H.264 and H.265) to uint8 (h, w, 3) RGB."""

    def __init__(self, encoding: str) -> None:
        self._context: Any = av.CodecContext.create(_CODEC_NAMES[encoding], "r")
        self._context.thread_type = "SLICE"  # frame threads would hold pictures back

    def decode(self, data: memoryview) -> NDArray[np.uint8] | None:
        """The picture after this packet. Raises ValueError for bytes that do not decode."""
        return self._decode(av.Packet(bytes(data)))

    def flush(self) -> NDArray[np.uint8] | None:
        return self._decode(None)

    def _decode(self, packet: Any) -> NDArray[np.uint8] | None:
        try:
            frames = self._context.decode(packet)
        except av.FFmpegError as error:
            raise ValueError(f"the video does not decode: {error}") from error
        return frames[-1].to_ndarray(format="rgb24") if frames else None
