"""Pictures that come equal in every epoch, kept in memory as pixels once they are decoded (`keep="pixels"`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload._core import Scratch
from trainload.errors import UsageError
from trainload.images.decode import CORRUPT, PictureDecoder
from trainload.images.limits import PictureLimits
from trainload.images.ops.protocols import Operation
from trainload.images.ops.split import split_ops
from trainload.memory.aligned import aligned_array


class KeptPixels:
    """A place for every sample of a loader, filled as they are decoded: uint8, as they are before Normalize.

    first: makes these pixels of encoded pictures. A damaged picture is kept as such, with the reason. For all threads.
    Raises UsageError for operations that draw random numbers.
    """

    def __init__(
        self,
        ops: Sequence[Operation],
        ids: NDArray[np.int64],
        *,
        out: str | None,
        layout: str | None,
        dct_scale: str,
        orientation: str,
        limits: PictureLimits,
    ) -> None:
        """ids: int64 [n], the samples, each once, ascending; the others as for PictureDecoder."""
        split = split_ops(ops)
        if split.random:
            names = ", ".join(map(repr, split.random))
            raise UsageError(f"keep='pixels' keeps pictures that come equal in every epoch, but these draw: {names}")
        plain = [op for _, op in split.core]
        self.first = PictureDecoder(
            plain, out="uint8", layout="NHWC", dct_scale=dct_scale, orientation=orientation, limits=limits
        )
        height, width, channels = self.first.shape
        after = [] if split.normalize is None else [split.normalize]
        self._last = PictureDecoder(after, out=out, layout=layout, array_shape=(height, width, channels))
        self._ids = ids
        self.picture_bytes = height * width * channels
        self.size_bytes = len(ids) * self.picture_bytes
        self._pixels: NDArray[np.uint8] | None = None
        self._is_kept = np.zeros(len(ids), np.bool_)
        self._damaged: dict[int, str] = {}

    def open(self) -> None:
        """Have the memory ready, before threads start; a page of it takes none before it is written."""
        if self._pixels is None:
            self._pixels = aligned_array(self.size_bytes).reshape(len(self._ids), *self.first.shape)

    def holds(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these samples are kept."""
        return self._is_kept[np.searchsorted(self._ids, ids)]

    def put(self, ids: NDArray[np.int64], pixels: NDArray[np.uint8], reasons: dict[int, str]) -> None:
        """Keep these pictures; reasons: by position, of the damaged ones."""
        assert self._pixels is not None
        rows = np.searchsorted(self._ids, ids)
        self._pixels[rows] = pixels
        self._damaged |= {int(rows[n]): reason for n, reason in reasons.items()}
        self._is_kept[rows] = True

    def take(
        self, scratch: Scratch, ids: NDArray[np.int64], images: NDArray[Any], codes: NDArray[np.int32]
    ) -> dict[int, str]:
        """Make a batch's pictures of what is kept; codes and what is returned as by PictureDecoder.run."""
        assert self._pixels is not None
        rows = np.searchsorted(self._ids, ids)
        places = rows.astype(np.uint64)
        self._last.run_pixels(scratch, self._pixels, places, 0, 0, images)
        found = enumerate(rows.tolist()) if self._damaged else ()
        reasons = {n: self._damaged[row] for n, row in found if row in self._damaged}
        codes[list(reasons)] = CORRUPT
        return reasons
