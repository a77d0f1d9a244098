"""Encoded pictures become training pixels: one `PictureDecoder` per loader, shared by its threads.

What the core does not decode (CMYK, PNG and other formats, 12 or 16 bits, lossless) takes the slow path: Pillow decodes
it whole, then the same operations run with the same random numbers. So do pictures that are to be turned. This file
moves arrays; it knows no operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trainload import _core
from trainload.codecs.orientation import jpeg_orientation
from trainload.codecs.picture import decode_whole, open_checked, pillow_pixels
from trainload.errors import UsageError
from trainload.images.limits import NO_LIMITS, PictureLimits, Turns, pillow_bytes
from trainload.images.ops.protocols import Operation
from trainload.images.ops.split import Out, split_ops

GOOD, OTHER_DECODER, CORRUPT, TOO_LARGE = 0, 1, 2, 3

_OUTS = ("uint8", "float32", "float16")
_LAYOUTS = ("NHWC", "NCHW", "NHWC4")
_DCT_SCALES = ("off", "auto")
_ORIENTATIONS = ("stored", "exif")


class PictureDecoder:
    """Operations with an output format. Thread-safe: each thread brings its own scratch.

    ops: as for `split_ops`; the batch operations among them are left to the caller. out: None is "float32" with
    Normalize and "uint8" without. layout: None is NCHW for floats and NHWC for uint8. array_shape: (h, w, channels) of
    pictures that come as arrays (MNIST, CIFAR), which then need no crop; one channel stays one. entry_points: keeps the
    places inside of JPEGs where decoding may begin, by sample id and bytes, for decoders with any operations: from the
    second time on, a picture's crop costs up to a quarter less. None: none are kept. orientation: "exif" turns pictures
    upright before the operations where their EXIF says how, "stored" leaves them as they are stored. limits: what
    pictures may claim and take.

    shape, dtype, layout: of one picture of a batch, as chosen. Raises UsageError for what cannot be.
    """

    def __init__(
        self,
        ops: Sequence[Operation],
        *,
        out: str | None = None,
        layout: str | None = None,
        dct_scale: str = "off",
        array_shape: tuple[int, int, int] | None = None,
        entry_points: _core.EntryPointStore | None = None,
        orientation: str = "stored",
        limits: PictureLimits = NO_LIMITS,
    ) -> None:
        split = split_ops(ops)
        out = out or ("float32" if split.normalize else "uint8")
        layout = layout or ("NHWC" if out == "uint8" else "NCHW")
        _check_choice("out", out, _OUTS)
        _check_choice("layout", layout, _LAYOUTS)
        _check_choice("dct_scale", dct_scale, _DCT_SCALES)
        check_orientation(orientation)
        self._upright = orientation == "exif"
        if split.normalize and out == "uint8":
            raise UsageError("Normalize makes floats: leave it out, or give out='float32' or 'float16'")
        size = split.output_size(array_shape[:2] if array_shape else None)
        if size is None:
            raise UsageError(
                "the pictures have many sizes: end with RandomResizedCrop, RandomCrop, CenterCrop or Resize"
            )
        height, width = size
        self._gray = array_shape is not None and array_shape[2] == 1 and layout != "NHWC4"
        self._channel_axis = 1 if layout == "NCHW" else 3
        channels = 4 if layout == "NHWC4" else 1 if self._gray else 3
        self.shape = (channels, height, width) if layout == "NCHW" else (height, width, channels)
        self.dtype, self.layout = np.dtype(out), layout
        specs = split.specs(cast(Out, out))
        arguments = (specs, width, height, out, layout, split.mean, split.std, dct_scale, limits.most_pixels)
        self._pipeline = _core.Pipeline(*arguments, limits.beside_bytes)
        self._alone = _core.Pipeline(*arguments)
        self._limits = limits
        self._turns = Turns(limits.together_bytes)
        self._entry_points = entry_points

    def use_entry_points(self, points: _core.EntryPointStore | None) -> None:
        """Keep entry points there from now on; None keeps none."""
        self._entry_points = points

    def new_scratch(self) -> _core.Scratch:
        """What one thread keeps from picture to picture: some megabytes that grow with the largest picture."""
        return _core.Scratch()

    def run(
        self,
        scratch: _core.Scratch,
        arena: NDArray[np.uint8],
        offsets: NDArray[np.uint64],
        sizes: NDArray[np.uint64],
        ids: NDArray[np.uint64],
        seed: int,
        epoch: int,
        images: NDArray[Any],
        codes: NDArray[np.int32],
        draws: NDArray[np.uint32] | None = None,
    ) -> dict[int, str]:
        """Decode picture i of the slice, arena[offsets[i] :][: sizes[i]], into images[i].

        ids name the random numbers, and the bytes: what is known of a picture is known by its id. draws: how often the
        epoch has had each sample before, which names the random numbers too; None is never. codes[i] is GOOD on entry
        where the picture is to be decoded; it becomes GOOD or CORRUPT (images[i] is then undefined). What is CORRUPT on
        entry is skipped.
        Returns the reason of every one that this call found corrupt, by its position. The GIL is free but for the slow
        path.
        """
        points = self._entry_points

        def encoded_of(i: int) -> memoryview:
            return arena.data[int(offsets[i]) : int(offsets[i]) + int(sizes[i])]

        if self._upright:
            wanted = np.flatnonzero(codes == GOOD).tolist()
            codes[[i for i in wanted if jpeg_orientation(encoded_of(i)) > 1]] = OTHER_DECODER
        self._pipeline.run(scratch, arena, offsets, sizes, ids, seed, epoch, images, codes, points, draws)
        reasons = dict(scratch.messages)
        for i, size_bytes in scratch.needs:
            one = slice(i, i + 1)
            codes[i] = GOOD
            with self._turns.wait_for(size_bytes):
                alone = self.new_scratch()
                self._alone.run(
                    alone,
                    arena,
                    offsets[one],
                    sizes[one],
                    ids[one],
                    seed,
                    epoch,
                    images[one],
                    codes[one],
                    points,
                    None if draws is None else draws[one],
                )
                reasons.update((i, reason) for _, reason in alone.messages)
                del alone
        left = _in_rows(np.flatnonzero(codes == OTHER_DECODER), ids)
        while left:
            few = left.pop()
            draw = None if draws is None else draws[few]
            reason = self._run_slowly(scratch, encoded_of(few.start), ids[few], seed, epoch, images[few], draw)
            places = range(few.start, few.stop)
            if reason is not None and len(places) > 1:  # it may be the fault of one draw
                left += [slice(i, i + 1) for i in places]
                continue
            codes[few] = GOOD if reason is None else CORRUPT
            for i in places:
                reasons.pop(i, None)
            if reason is not None:
                reasons[few.start] = reason
        return reasons

    def run_pixels(
        self,
        scratch: _core.Scratch,
        pixels: NDArray[np.uint8],
        rows: NDArray[np.uint64],
        seed: int,
        epoch: int,
        images: NDArray[Any],
        draws: NDArray[np.uint32] | None = None,
    ) -> None:
        """The same for pictures in memory: pixels uint8[n, h, w, 1 or 3]; images[i] is made of pixels[rows[i]].

        A row is also the sample id. Raises ValueError where a crop does not fit.
        """
        if pixels.shape[3] == 3:
            self._pipeline.run_pixels(scratch, pixels, rows, rows, seed, epoch, images, draws)
            return
        colours = np.repeat(pixels[rows], 3, axis=3)
        places = np.arange(len(rows), dtype=np.uint64)
        if not self._gray:
            self._pipeline.run_pixels(scratch, colours, places, rows, seed, epoch, images, draws)
            return
        shape = list(images.shape)
        shape[self._channel_axis] = 3
        made = np.empty(shape, self.dtype)
        self._pipeline.run_pixels(scratch, colours, places, rows, seed, epoch, made, draws)
        images[...] = made.take([0], axis=self._channel_axis)

    def _run_slowly(
        self,
        scratch: _core.Scratch,
        encoded: memoryview,
        ids: NDArray[np.uint64],
        seed: int,
        epoch: int,
        images: NDArray[Any],
        draws: NDArray[np.uint32] | None,
    ) -> str | None:
        """One picture, decoded whole and turned first, made into samples; returns why they cannot be had, or None."""
        try:
            turned = self._upright and jpeg_orientation(encoded) > 1  # the core has not seen it yet
            with open_checked(encoded, self._limits.most_pixels) as picture:
                size_bytes = pillow_bytes(picture, len(encoded), turned=self._upright)
                is_large = size_bytes > self._limits.beside_bytes
                with self._turns.wait_for(size_bytes) if is_large else nullcontext():
                    pixels = decode_whole(encoded, turn=True) if turned else pillow_pixels(picture, turn=self._upright)
                    rows = np.zeros(len(ids), np.uint64)
                    own = self.new_scratch() if is_large else scratch
                    self._pipeline.run_pixels(own, pixels[None], rows, ids, seed, epoch, images, draws)
                    del own, pixels
        except ValueError as error:
            return str(error)
        return None


def _in_rows(places: NDArray[np.int64], ids: NDArray[np.uint64]) -> list[slice]:
    """Places that stand next to each other and are of one picture, as slices."""
    if not len(places):
        return []
    breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(ids[places]) != 0))
    firsts, lasts = places[np.append(0, breaks + 1)], places[np.append(breaks, len(places) - 1)]
    return [slice(first, last + 1) for first, last in zip(firsts.tolist(), lasts.tolist())]


def check_orientation(value: str) -> None:
    """Raise UsageError for what is no way to take EXIF orientation."""
    _check_choice("orientation", value, _ORIENTATIONS)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; give one of {', '.join(choices)}")
