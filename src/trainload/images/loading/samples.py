"""From the bytes of a batch to what the consumer gets: decode, replace what is damaged, apply the batch operations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload._core import EntryPointStore, Scratch
from trainload.errors import SampleError, UsageError
from trainload.images.decode import CORRUPT, PictureDecoder
from trainload.images.limits import BYTES_PER_PIXEL, PictureLimits
from trainload.images.loading.fill import Fill
from trainload.images.loading.kept_pixels import KeptPixels
from trainload.images.loading.layout import plan_reads
from trainload.images.loading.picture_batch import PictureBatch
from trainload.images.loading.picture_sets import LoadedSet, Origin
from trainload.images.loading.planning import MOST_SLICE
from trainload.images.ops.protocols import BatchContext, Operation
from trainload.images.ops.split import run_batch_ops, split_ops
from trainload.memory.aligned import aligned_array
from trainload.running.slices import BatchJob

MOST_REPLACEMENTS_TRIED = 256  # where a whole batch is damaged
INSTANT_BYTES = 1 << 20  # of a gather: 0.1 ms
SCRATCH_BYTES = 8 << 20  # of one thread, apart from what grows with the picture,
OUTPUT_SCRATCH_BYTES = 24  # and with each pixel of the output: copies of it, as floats between the passes of a blur
ENTRY_POINT_SHARE = 12  # of the pictures' bytes; they take 1/28 of full-size pictures, 1/18 of level 3's
ENTRY_POINT_MEMORY_SHARE = 16  # of the memory that a process may use, whatever the set needs


def entry_point_budget(samples: LoadedSet, ids: NDArray[np.int64], memory_bytes: int) -> int:
    """Bytes for the entry points into the pictures `ids`: enough for all of them, but a small part of the memory."""
    if samples.places is None:
        return 0
    wanted = int(samples.places.size[ids].sum(dtype=np.int64)) // ENTRY_POINT_SHARE
    return min(wanted, memory_bytes // ENTRY_POINT_MEMORY_SHARE)


class SampleDecoder:
    """Decodes slices of batches for all threads and finishes batches. Holds the set and the operations, no loader.

    picture_shape, dtype: of one picture of a batch. scratch_bytes: what one thread keeps at most, and the most that it
    takes besides for a picture that the core leaves to Pillow. limits: of pictures, in memory and pixels. gathers: a
    batch is one gather from pixels in memory, but for batch operations. orientation: as for PictureDecoder. keep: these
    samples (each once, ascending) are decoded once and kept as pixels, in `kept`; None is none.
    Raises UsageError for operations that cannot be.
    """

    def __init__(
        self,
        samples: LoadedSet,
        ops: Sequence[Operation],
        *,
        out: str | None,
        layout: str | None,
        dct_scale: str,
        replace: bool,
        verify: bool,
        with_ids: bool,
        orientation: str = "stored",
        keep: NDArray[np.int64] | None = None,
    ) -> None:
        self._samples = samples
        self._replace = replace
        self._verify = verify
        self._with_ids = with_ids
        split = split_ops(ops)
        self._batch_ops = split.batch
        shape = None if samples.pixels is None else samples.pixels.shape[1:]
        self.limits = PictureLimits.of_set(samples.largest_picture, samples.most_pixels)
        self._pictures = PictureDecoder(
            ops,
            out=out,
            layout=layout,
            dct_scale=dct_scale,
            array_shape=shape,
            orientation=orientation,
            limits=self.limits,
        )
        self.picture_shape = self._pictures.shape
        self.dtype = self._pictures.dtype
        self.gathers = not split.core and self.dtype == np.uint8 and self.picture_shape == shape
        beside = 0 if samples.pictures is None else 2 * self.limits.beside_bytes
        self.kept: KeptPixels | None = None
        if keep is not None:
            if shape is not None:
                raise UsageError("keep='pixels': the set is in memory as pixels anyway; leave it out")
            self.kept = KeptPixels(
                ops, keep, out=out, layout=layout, dct_scale=dct_scale, orientation=orientation, limits=self.limits
            )
            beside += MOST_SLICE * self.kept.picture_bytes
        self.scratch_bytes = SCRATCH_BYTES + OUTPUT_SCRATCH_BYTES * int(np.prod(self.picture_shape)) // 3 + beside

    def large_picture_bytes(self) -> int:
        """What all larger pictures take that are being decoded at a time."""
        pictures = self._samples.pictures
        if pictures is None or not self.limits.together_bytes:
            return 0
        return max(self.limits.together_bytes, BYTES_PER_PIXEL * pictures.largest_pixels())

    def is_instant(self, batch_size: int) -> bool:
        """True where a batch takes less time than it takes to wake a thread: one small gather, nothing else."""
        bytes_moved = batch_size * int(np.prod(self.picture_shape))
        return self.gathers and not self._batch_ops and bytes_moved <= INSTANT_BYTES

    def new_scratch(self) -> Scratch:
        """What one thread keeps from picture to picture."""
        return self._pictures.new_scratch()

    def use_entry_points(self, points: EntryPointStore | None) -> None:
        """Keep entry points there from now on; None: pictures are decoded without."""
        self._pictures.use_entry_points(points)

    def without_kept(self) -> SampleDecoder:
        """The same that keeps no pixels; whoever has this one keeps them."""
        other = copy(self)
        other.kept = None
        return other

    def decode(self, scratch: Scratch, fill: Fill | None, job: BatchJob, first: int, end: int) -> None:
        """Decode samples [first:end] of the batch into its images; bad ones get a code and a reason."""
        batch: PictureBatch = job.items
        ids, images, codes = job.ids[first:end], batch.images[first:end], batch.codes[first:end]
        draws = None if job.draws is None else job.draws[first:end]
        if self.kept is not None:
            reasons = self._take_kept(scratch, self.kept, fill, job, ids, images, codes)
        elif fill is None:
            self._take_pixels(scratch, ids, draws, job, images)
            return
        else:
            reasons = self._decode_encoded(self._pictures, scratch, fill, job, ids, images, codes, draws)
        batch.reasons.update({first + n: reason for n, reason in reasons.items()})

    def _decode_encoded(
        self,
        decoder: PictureDecoder,
        scratch: Scratch,
        fill: Fill,
        job: BatchJob,
        ids: NDArray[np.int64],
        images: NDArray[Any],
        codes: NDArray[np.int32],
        draws: NDArray[np.uint32] | None,
    ) -> dict[int, str]:
        """Decode what a fill holds; the reasons of the damaged ones by position."""
        places = self._samples.places
        assert places is not None
        damaged = fill.reasons(ids)
        codes[list(damaged)] = CORRUPT  # what a checksum refuses is not decoded, nor are entry points learned from it
        reasons = decoder.run(
            scratch,
            fill.arena,
            fill.offsets(ids),
            places.size[ids].astype(np.uint64),
            ids.astype(np.uint64),
            job.seed,
            job.epoch,
            images,
            codes,
            draws,
        )
        return reasons | damaged

    def _take_kept(
        self,
        scratch: Scratch,
        kept: KeptPixels,
        fill: Fill | None,
        job: BatchJob,
        ids: NDArray[np.int64],
        images: NDArray[Any],
        codes: NDArray[np.int32],
    ) -> dict[int, str]:
        """From what is kept, after what is missing there was decoded. Without a fill nothing is missing."""
        missing = ids[~kept.holds(ids)]
        if len(missing) and fill is not None:
            pixels = np.empty((len(missing), *kept.first.shape), np.uint8)
            found = np.zeros(len(missing), np.int32)
            reasons = self._decode_encoded(kept.first, scratch, fill, job, missing, pixels, found, None)
            kept.put(missing, pixels, reasons)
        return kept.take(scratch, ids, images, codes)

    def _take_pixels(
        self,
        scratch: Scratch,
        ids: NDArray[np.int64],
        draws: NDArray[np.uint32] | None,
        job: BatchJob,
        images: NDArray[Any],
    ) -> None:
        pixels = self._samples.pixels
        assert pixels is not None
        if self.gathers:
            np.take(pixels, ids, axis=0, out=images)
        else:
            self._pictures.run_pixels(scratch, pixels, ids.astype(np.uint64), job.seed, job.epoch, images, draws)

    def finish(self, job: BatchJob) -> None:
        """Make the output of a batch whose slices are all decoded. Raises SampleError for the first damaged picture."""
        batch: PictureBatch = job.items
        damaged = np.flatnonzero(batch.codes)
        if len(damaged):
            if not self._replace:
                raise self._error(job, int(damaged[0]))
            batch.damage = [self._error(job, n) for n in damaged.tolist()]
            self._replace_damaged(job, damaged)
        images: Any = batch.images
        labels: Any = batch.labels
        if self._batch_ops:
            first_draw = 0 if job.draws is None or not len(job.draws) else int(job.draws[0])
            context = BatchContext(job.seed, job.epoch, job.ids, self._pictures.layout, first_draw)
            images, labels = run_batch_ops(self._batch_ops, images, labels, context)
        job.output = (images, labels, job.ids) if self._with_ids else (images, labels)

    def _error(self, job: BatchJob, n: int) -> SampleError:
        sample = int(job.ids[n])
        origin = Origin(None, "", "")
        if self._samples.pictures is not None:
            origin = self._samples.pictures.origin(sample)
        reason = job.items.reasons.get(n, "the picture cannot be decoded")
        return SampleError(reason, sample=sample, block=origin.block, source=origin.source, path=origin.path)

    def _replace_damaged(self, job: BatchJob, damaged: NDArray[np.int64]) -> None:
        """Put the next good sample of the batch (from its end on: from its start) in place of each damaged one."""
        batch: PictureBatch = job.items
        good = np.flatnonzero(batch.codes == 0)
        job.ids = job.ids.copy()
        job.draws = None if job.draws is None else job.draws.copy()
        if not len(good):
            self._find_replacement(job)
            good, damaged = np.zeros(1, np.int64), np.arange(1, len(job.ids))
        stand_ins = good[np.searchsorted(good, damaged) % len(good)]
        batch.images[damaged] = batch.images[stand_ins]
        batch.labels[damaged] = batch.labels[stand_ins]
        job.ids[damaged] = job.ids[stand_ins]
        if job.draws is not None:
            job.draws[damaged] = job.draws[stand_ins]

    def _find_replacement(self, job: BatchJob) -> None:
        """All of the batch is damaged: let the first good one of this rank's next samples take the first place."""
        batch: PictureBatch = job.items
        for n, sample in enumerate(job.following[:MOST_REPLACEMENTS_TRIED].tolist()):
            draws = None if job.following_draws is None else job.following_draws[n : n + 1]
            trial = self.decode_now(np.array([sample]), job.seed, job.epoch, draws=draws)
            found: PictureBatch = trial.items
            if found.codes[0] == 0:
                batch.images[0], batch.labels[0], job.ids[0] = found.images[0], found.labels[0], sample
                if job.draws is not None and draws is not None:
                    job.draws[0] = draws[0]
                return
        raise batch.damage[0]

    def decode_now(
        self,
        ids: NDArray[np.int64],
        seed: int,
        epoch: int,
        fill: Fill | None = None,
        *,
        draws: NDArray[np.uint32] | None = None,
    ) -> BatchJob:
        """A batch of any samples, read (unless `fill` holds them) and decoded on this thread; not yet finished."""
        images = np.empty((len(ids), *self.picture_shape), self.dtype)
        job = BatchJob(ids, PictureBatch.into(images, self._samples.labels[ids]), seed, epoch, 0, ids[:0], draws)
        if self._samples.pictures is not None and fill is None:
            plan = plan_reads(self._samples.pictures.places, ids)
            fill = Fill(aligned_array(plan.size_bytes), plan)
            reads = fill.all_reads()
            for k in reads.order:
                fill.read(self._samples.pictures, reads, k, verify=self._verify)
        if fill is None:
            self._take_pixels(self.new_scratch(), ids, draws, job, images)
        else:
            found: PictureBatch = job.items
            found.reasons |= self._decode_encoded(
                self._pictures, self.new_scratch(), fill, job, ids, images, found.codes, draws
            )
        return job
