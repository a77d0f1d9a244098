"""The user's handle: batches of training pictures from any set, in an exact order, from a known amount of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainload.errors import UsageError
from trainload.images.format.dts import BLOCK_SIZE
from trainload.images.loading.arena_feed import ArenaFeed
from trainload.images.loading.buffers import BatchPool, BufferPair
from trainload.images.loading.fill import Fill
from trainload.images.loading.layout import unique_ids
from trainload.images.loading.modes import AskedMode, ModeChoice, check_kept, choose_mode
from trainload.images.loading.options import (
    GROUP_BLOCKS,
    HINTS,
    DctScale,
    Keep,
    Layout,
    OnError,
    Orientation,
    Tuning,
    Verify,
    check_repeat,
    check_replace_limit,
    options_with_ops,
)
from trainload.images.loading.picture_batch import ImageArrays, PictureBatches
from trainload.images.loading.picture_sets import LoadedSet, open_set
from trainload.images.loading.planning import Planner, Workforce, buffer_blocks, buffer_size, needed_bytes
from trainload.images.loading.quality import ShuffleQuality, shuffle_quality
from trainload.images.loading.replacing import Replacements, default_limit
from trainload.images.loading.resident import Resident, find_resident
from trainload.images.loading.samples import SampleDecoder, entry_point_budget
from trainload.images.loading.whole_check import check_before_reading
from trainload.images.ops.protocols import Operation
from trainload.images.ops.split import Out
from trainload.images.reading.image_set import GivenSet
from trainload.machine.numa import cpu_sets
from trainload.memory.limits import memory_limit, processes_on_this_machine
from trainload.memory.plan import MemoryPlan
from trainload.running.arguments import check_choice, check_count, own_options, refuses_foreign, shuffle_kind
from trainload.running.cursor import Start
from trainload.running.iterator import BatchIterator
from trainload.running.lanes import LANES, check_lanes
from trainload.running.loader import EpochLoader
from trainload.running.order import EPOCHS, AskedShuffle, Cut, Last, Shuffle, checked_epoch
from trainload.running.run import Run
from trainload.running.selection import checked_draws, select
from trainload.running.slices import BatchArrays, BatchJob, RunPlan
from trainload.running.state import fingerprint

# Planning so many takes 15 ms: from here on the next epoch is planned ahead, on a thread of its own.
MANY_SAMPLES = 200_000


class ImageLoader(EpochLoader):
    """Batches of a set, decoded and augmented: `for images, labels in loader` is one epoch, the next `for` the next.

    images: [n, height, width, 3] or [n, 3, height, width], as `out` and `layout` say; labels: int64 [n]; with
    `with_ids` also ids: int64 [n]. Arrays are yours: what you keep stays as it is, what you drop is used again.
    The order (docs/order.md) and every augmentation depend on (seed, epoch, sample) alone, not on threads or ranks.
    Breaking out of the `for` ends the threads; the arenas stay for the next epoch until `close()` or the loader goes.

    picture_shape, dtype: of one picture of a batch. mode, mode_reason: what was chosen, and why. dataset: the reader.

    ds: what `trainload.open` gives, or a path. ops: operations per picture, then callables per batch.
    mode: "fully" (all in memory), "partial" (two buffers of group_blocks blocks), "auto".
    shuffle: "full", "group" (blocks, then samples inside a buffer), "none"; "lanes" is as "group", in fixed sets of
    blocks that ranks take whole: one copy of the set crosses the network per epoch (docs/many-nodes.md). True is
    "group" in mode partial on blocks, else "full", False is "none". "auto" is "none" for a set packed as validation
    set, else as True; a folder called val, test or the like does not say whether it is trained on: there "auto" is
    refused.
    group_blocks: blocks of 16 MB that "group" mixes at a time, and that each buffer of mode "partial" holds; under
    "lanes" of each lane. lanes: of "lanes" alone, and part of its order: the most ranks that will ever share an epoch;
    every number of ranks must divide it.
    last: what happens to the samples that fill no whole step of all ranks: "short", "drop" or "pad".
    rank, world_size: left out: those of torch.distributed when a pass begins; under a launcher (WORLD_SIZE above 1) a
    loader without a process group refuses to iterate. workers: threads that decode, one per CPU.
    on_error: "raise" a SampleError, or "replace" a damaged picture, or a folder's file that cannot be read, by another
    of its batch: counted in `stats`, with a RuntimeWarning at the first. replace_limit: so many in an epoch of this
    rank; one more is a SampleError. Left out: a hundredth of its samples, at least 16.
    verify: "blocks" checks each block's CRC-32 as it arrives, each picture's own where a block is read in part; a set
    of the genuine exporter carries neither, and a RuntimeWarning says so once. "file" also compares the CRC-32 of the
    whole file first, once, as `trainload.open_images` does. "none" checks nothing.
    dct_scale: "auto" decodes at 1/2 or 1/4 size where the crop is that much larger than the output, "off" never.
    orientation: "exif" turns pictures upright as their EXIF says (level 0, folders; levels 1 to 3 carry no EXIF),
    "stored" takes them as they are stored, as torchvision does.
    keep: "pixels" decodes each picture once and keeps it as it is before Normalize, for operations that draw nothing.
    repeat: so many samples of each picture in a row, each with draws of its own; the picture is decoded once for all.
    An epoch is that much longer. batch_size must be a multiple of it.
    indices: ids, or a bool per sample; weights: draw with replacement, one number per chosen sample.
    out: "uint8", "float32", "float16"; left out: "float32" with Normalize, else "uint8". layout: "NHWC", "NCHW" or
    "NHWC4"; left out: "NCHW" for floats, else "NHWC". tuning: how threads share work and memory, for experts.
    Raises UsageError for arguments that cannot be.
    """

    @refuses_foreign(HINTS)
    def __init__(
        self,
        ds: GivenSet,
        *,
        batch_size: int,
        ops: Sequence[Operation] = (),
        mode: AskedMode = "auto",
        seed: int = 0,
        shuffle: AskedShuffle = "auto",
        group_blocks: int = GROUP_BLOCKS,
        lanes: int = LANES,
        last: Last = "short",
        rank: int | None = None,
        world_size: int | None = None,
        workers: int | None = None,
        on_error: OnError = "raise",
        replace_limit: int | None = None,
        verify: Verify = "blocks",
        dct_scale: DctScale = "off",
        orientation: Orientation = "stored",
        keep: Keep | None = None,
        repeat: int = 1,
        indices: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        out: Out | None = None,
        layout: Layout | None = None,
        with_ids: bool = False,
        tuning: Tuning = Tuning(),  # noqa: B008 (frozen)
    ) -> None:
        options = own_options(locals(), "ds")
        check_choice("on_error", on_error, ("raise", "replace"))
        if keep is not None:
            check_choice("keep", keep, ("pixels",))
        check_choice("verify", verify, ("blocks", "file", "none"))
        check_replace_limit(replace_limit)
        check_repeat(repeat, batch_size)
        check_count("group_blocks", group_blocks)
        check_count("lanes", lanes)
        reader, self._set = open_set(ds)
        check_before_reading(reader, verify)
        super().__init__(
            reader,
            select(len(self._set.labels), self._set.blocks, indices, weights, int(repeat)),
            options,
            batch_size=batch_size,
            last=last,
            rank=rank,
            world_size=world_size,
            workers=workers,
        )
        self._decoder = SampleDecoder(
            self._set,
            ops,
            out=out,
            layout=layout,
            dct_scale=dct_scale,
            replace=on_error == "replace",
            verify=verify != "none",
            with_ids=with_ids,
            orientation=orientation,
            keep=None if keep is None else unique_ids(self._selection.ids),
        )
        self.picture_shape, self.dtype = self._decoder.picture_shape, self._decoder.dtype
        self.mode, self.mode_reason = self._choose_mode(mode)
        kind = _shuffle_kind(shuffle, weights is not None, self._set, self.mode)
        if kind == "lanes":
            check_lanes(lanes, self._selection.blocks)
        self._set_order(seed, kind, group_blocks, lanes if kind == "lanes" else 0)
        decode_workers = 0 if self._decoder.is_instant(batch_size) else self.workers
        self._workforce = Workforce(
            decode_workers,
            tuning.readers(self._set.is_remote),
            tuning.prefetch,
            verify != "none",
            cpu_sets(tuning.cpus),
        )
        self._planners: dict[Cut, Planner] = {}  # the one in use
        self._resident: Resident | None = None
        self._stay_in(self._new_resident())
        self._tuning, self._replace_limit = tuning, replace_limit
        self._pair = tuning.buffers or BufferPair()
        self._pool = BatchPool((batch_size, *self.picture_shape), self.dtype, tuning.prefetch + 2)

    def shuffle_quality(self, epoch: int = 0) -> ShuffleQuality:
        """How many classes a batch holds, against a uniform shuffle of the same samples."""
        return shuffle_quality(self._set.labels[self._selection.order(self._rule, epoch)], self.batch_size)

    def subset(self, indices: ArrayLike, **changes: Any) -> ImageLoader:
        """A new loader over these samples of the set, with the same options but for `changes`."""
        return ImageLoader(self.dataset, **{**self._options, "weights": None, "indices": indices, **changes})

    def with_ops(
        self, ops: Sequence[Operation], *, out: Out | None = None, batch_size: int | None = None
    ) -> ImageLoader:
        """A new loader with other operations over the same memory: nothing that this one has read is read again.

        out, batch_size: left out, as this loader was given. Its first pass is the one that this loader's next would be:
        epochs, order and random numbers go on, and each counts for itself from there. States of one load into the
        other. In mode "partial" both share the two buffers, one at a time.
        """
        loader = ImageLoader(self.dataset, **options_with_ops(self._options, ops, out, batch_size))
        loader.go_on_from(self)
        return loader

    def go_on_from(self, parent: ImageLoader) -> None:
        """Share the memory of a loader over the same samples, and begin where its next pass would."""
        if self._workforce == parent._workforce and self._decoder.gathers == parent._decoder.gathers:
            self._planners = parent._planners
        self.mode, self.mode_reason = parent.mode, parent.mode_reason
        self._selection, self._pair = parent._selection, parent._pair
        self._rule, self._cut.ranks = parent._rule, parent._cut.ranks
        self._cursor.go_to(*parent._cursor.next)
        self._stay_in(parent._resident)

    # Batches.

    def iterate(self, arrays: ImageArrays) -> BatchIterator:
        """As `iter(loader)`, decoding into arrays that the caller lends (the torch adapter's pinned zones)."""
        return self._iterate(PictureBatches(arrays, self._set.labels))

    def _batch_arrays(self) -> BatchArrays:
        return PictureBatches(self._pool, self._set.labels)

    def _new_check(self) -> Callable[[BatchJob], None]:
        limit = self._replace_limit
        if limit is None:
            limit = default_limit(len(self._selection) // self._cut.ranks.expected_size)
        return Replacements(self.stats, limit).count

    def batch(self, ids: ArrayLike, epoch: int | None = None, *, draws: ArrayLike = 0) -> tuple[Any, ...]:
        """Any samples as one batch, at once, as they are in `epoch` (default: the current one). On this thread.

        draws: one for all or one per sample, as in `epoch_draws`: which time that the epoch has the sample.
        """
        asked = select(len(self._set.labels), self._set.blocks, ids, None).ids
        at = self.epoch if epoch is None else checked_epoch(epoch)
        fill = None if self._resident is None else self._resident.filled
        if fill is not None and not fill.holds(asked):
            fill = None
        job = self._decoder.decode_now(asked, self._rule.seed, at, fill, draws=checked_draws(draws, len(asked)))
        self._decoder.finish(job)
        Replacements(self.stats, None).count(job)
        output: tuple[Any, ...] = job.output
        return output

    def memory_plan(self) -> MemoryPlan:
        """Every buffer of this loader, in bytes."""
        buffers: dict[str, int] = {}
        places, resident = self._set.places, self._resident
        shared = " (shared)" if resident is not None and resident.is_shared else ""
        if places is None:
            buffers["pixels of the set"] = 0 if self._set.pixels is None else self._set.pixels.nbytes
        elif self.mode == "fully":
            buffers[f"arena with all samples{shared}"] = needed_bytes(places, self._selection.ids)
        else:
            size = max(self._pair.size_bytes, self._buffer_bytes(self._cut.expected_ranks))
            lent = shared if self._tuning.buffers is None else " (shared)"
            buffers |= {f"buffer A{lent}": size, f"buffer B{lent}": size}
        if self._set.is_cached:
            buffers["blocks on their way into the cache"] = self._workforce.io_workers * BLOCK_SIZE
        if self._decoder.kept is not None:
            buffers["pixels that are kept"] = self._decoder.kept.size_bytes
        arrays = self._tuning.prefetch + 2
        picture = int(np.prod(self.picture_shape)) * self.dtype.itemsize
        buffers[f"{arrays} batch arrays"] = arrays * self.batch_size * picture
        together = self._decoder.limits.beside_bytes if self._selection.repeats and places is not None else 0
        buffers[f"scratch of {self.workers} decode workers"] = self.workers * (self._decoder.scratch_bytes + together)
        buffers["pictures too large to decode side by side"] = self._decoder.large_picture_bytes()
        entry_points = 0 if resident is None else resident.entry_point_bytes
        buffers[f"entry points into the pictures{shared}"] = entry_points
        per_position = (6 if self._selection.repeats else 4) + (4 if self._rule.lanes else 0)
        buffers["orders and tables"] = 8 * (per_position * len(self._selection) + 8 * len(self._set.labels))
        return MemoryPlan(buffers)

    # Inside.

    def _free(self) -> None:
        self._let_samples_go()
        self._decoder = self._decoder.without_kept()
        self._pool = BatchPool((0,), np.uint8, 1)

    def _new_resident(self) -> Resident | None:
        """In mode "fully" that of all loaders over the same samples whose bytes are checked alike."""
        pictures, ids = self._set.pictures, unique_ids(self._selection.ids)
        if pictures is None:
            return None
        places = pictures.places

        def make() -> Resident:
            memory_bytes = memory_limit().size_bytes // processes_on_this_machine()
            return Resident(places, ids, entry_point_budget(self._set, ids, memory_bytes))

        if self.mode != "fully":
            return make()
        chosen = None if len(ids) == len(places.unit) else fingerprint(ids)
        return find_resident((pictures.identity(), self._options["verify"], chosen), make)

    def _stay_in(self, resident: Resident | None) -> None:
        """Use this memory, and no other, for samples that stay; None: for none."""
        if self._resident is not None:
            self._resident.leave(self)
        self._resident = resident
        if resident is not None:
            resident.join(self)
        self._decoder.use_entry_points(None if resident is None else resident.entry_points)

    def _let_samples_go(self) -> None:
        """Give back what encoded pictures lie in."""
        self._stay_in(None)
        if self._tuning.buffers is None:
            self._pair.free()
            self._pair = BufferPair()

    def _choose_mode(self, mode: AskedMode) -> ModeChoice:
        if self._set.places is None:
            return ModeChoice("fully", "the set is one array of pixels")
        needed = needed_bytes(self._set.places, self._selection.ids)
        kept_bytes = 0 if self._decoder.kept is None else self._decoder.kept.size_bytes
        chosen = choose_mode(mode, needed + kept_bytes, memory_limit(), processes_on_this_machine())
        if kept_bytes:
            beside = needed if chosen.mode == "fully" else 0
            check_kept(kept_bytes, beside, memory_limit(), processes_on_this_machine())
        return chosen

    def _buffer_bytes(self, ranks: int) -> int:
        """One arena of mode "partial". ranks: that share an epoch, each device for itself."""
        places, rule = self._set.places, self._rule
        assert places is not None
        blocks = buffer_blocks(rule, ranks, self._cut.devices)
        return buffer_size(places, self._selection.ids, blocks * BLOCK_SIZE)

    def _samples_fingerprint(self) -> str:
        places, chosen = self._set.places, self._selection
        return fingerprint(self._set.labels, None if places is None else places.size, chosen.ids, chosen.weights)

    def _planner_of(self, cut: Cut) -> Planner:
        if cut not in self._planners:
            planner = Planner(
                self._selection,
                cut,
                self._workforce,
                places=self._set.places,
                has_blocks=self._set.has_blocks,
                whole_batches=self._decoder.gathers,
            )
            self._planners = {cut: planner}
        return self._planners[cut]

    def _start_run(self, start: Start, position: int, arrays: BatchArrays) -> Run:
        rule, epoch = start.rule, start.epoch
        planner = self._planner_of(start.cut)
        memory, buffer_bytes = None, None
        if self._decoder.kept is None or not self._is_kept(planner.plan(rule, epoch, position, None).stream):
            memory, buffer_bytes = self._memory(start.cut.ranks)
        plan = planner.plan(rule, epoch, position, buffer_bytes)
        reads = None
        if isinstance(memory, Fill) and self._set.places is not None:
            reads = memory.missing_reads(self._set.places, plan.stream)

        def following() -> RunPlan:
            return planner.prepare(rule, epoch + 1, buffer_bytes)

        another = epoch + 1 < EPOCHS
        many = len(self._selection) > MANY_SAMPLES
        alone = memory is self._pair and self._tuning.buffers is None  # else another loader takes the buffers next
        feed = None
        if memory is not None and self._set.pictures is not None:
            feed = ArenaFeed(
                plan,
                self._set.pictures,
                memory,
                self.stats,
                reads=reads,
                following=following if another and alone and len(plan.stream) and self._decoder.kept is None else None,
            )
        run = Run(plan, self._decoder, arrays, self.stats, feed=feed, ahead=following if another and many else None)
        run.start()
        return run

    def _is_kept(self, stream: NDArray[np.int64]) -> bool:
        """True where all of these samples are kept as pixels: then what the encoded ones lie in goes."""
        kept = self._decoder.kept
        if kept is None:
            return False
        kept.open()
        if not kept.holds(stream).all():
            return False
        self._let_samples_go()
        return True

    def _memory(self, ranks: int) -> tuple[Fill | BufferPair | None, int | None]:
        """What a run reads into, and the size of one arena where there are two."""
        places = self._set.places
        if places is None:
            return None, None
        if self.mode == "fully":
            if self._resident is None:  # closed, but an iterator goes on (in a forked child)
                self._stay_in(self._new_resident())
            assert self._resident is not None
            return self._resident.fill(), None
        self._pair.require(self._buffer_bytes(ranks))
        return self._pair, self._pair.size_bytes

    def __repr__(self) -> str:
        return (
            f"ImageLoader({self.dataset!r}, batch_size={self.batch_size}, mode={self.mode!r}, "
            f"shuffle={self.shuffle!r}, rank={self._cut.ranks})"
        )


def _shuffle_kind(asked: AskedShuffle, weighted: bool, samples: LoadedSet, mode: str) -> Shuffle:
    if samples.is_training is None and asked == "auto" and not weighted:
        raise UsageError(
            "a folder does not say whether it is trained on, and the name of this one says that it is not: give "
            "shuffle='none' for its order, or shuffle=True to shuffle it"
        )
    mixed: Shuffle = "group" if mode == "partial" and samples.has_blocks else "full"
    kind = shuffle_kind(
        asked, auto=mixed if samples.is_training else "none", mixed=mixed, weighted=weighted, lanes=True
    )
    if kind != "none" and asked != "auto" and samples.is_training is False:
        warn("the set was packed as a validation set, and this loader shuffles it", RuntimeWarning, stacklevel=4)
    if kind in ("group", "lanes") and not samples.has_blocks:
        raise UsageError(f"shuffle={kind!r} needs blocks: a folder or an array has none")
    return kind
