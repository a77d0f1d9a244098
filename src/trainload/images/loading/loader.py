"""The user's handle: batches of training pictures from any set, in an exact order, from a known amount of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainload.errors import UsageError
from trainload.images.format.dts import BLOCK_SIZE
from trainload.images.loading.arena_feed import ArenaFeed
from trainload.images.loading.buffers import BatchPool, BufferPair
from trainload.images.loading.fill import Fill, resident_fill
from trainload.images.loading.modes import ModeChoice, choose_mode
from trainload.images.loading.pictures import open_set
from trainload.images.loading.planning import Planner, Workforce, buffer_size, needed_bytes
from trainload.images.loading.quality import ShuffleQuality, shuffle_quality
from trainload.images.loading.samples import SampleDecoder, entry_point_budget
from trainload.images.loading.selection import checked_draws, select
from trainload.machine.cpus import usable_cpus
from trainload.memory.limits import memory_limit, processes_on_this_machine
from trainload.memory.plan import MemoryPlan
from trainload.running.iterator import BatchIterator
from trainload.running.order import LASTS, SHUFFLES, Cut, Last, OrderRule, Shuffle
from trainload.running.progress import EPOCHS, Progress, Start
from trainload.running.ranks import RankCut, Ranks
from trainload.running.replacing import Replacements, default_limit
from trainload.running.run import Run
from trainload.running.slices import BatchArrays, RunPlan
from trainload.running.state import LoaderState, warn_of_equal_repeats
from trainload.running.stats import LoaderStats

# Planning so many takes 15 ms: from here on the next epoch is planned ahead, on a thread of its own.
MANY_SAMPLES = 200_000


class ImageLoader:
    """Batches of a set, decoded and augmented: `for images, labels in loader` is one epoch, the next `for` the next.

    images: [n, height, width, 3] or [n, 3, height, width], as `out` and `layout` say; labels: int64 [n]; with
    `with_ids` also ids: int64 [n]. Arrays are yours: what you keep stays as it is, what you drop is used again.
    The order (docs/order.md) and every augmentation depend on (seed, epoch, sample) alone, not on threads or ranks.
    Breaking out of the `for` ends the threads; the arenas stay for the next epoch until `close()` or the loader goes.

    picture_shape, dtype: of one picture of a batch. mode, mode_reason: what was chosen, and why. dataset: the reader.

    ds: what `trainload.open` gives, or a path. ops: operations per picture, then callables per batch.
    mode: "fully" (all in memory), "partial" (two buffers of prefetch_factor x io_workers blocks), "auto".
    shuffle: "full", "group" (blocks, then samples inside a buffer), "none"; "auto" is "none" for a set packed as
    validation set, else "group" in mode partial on blocks, else "full". True and False mean "auto" and "none".
    last: what happens to the samples that fill no whole step of all ranks: "short", "drop" or "pad".
    rank, world_size: left out: those of torch.distributed when a pass begins; under a launcher (WORLD_SIZE above 1) a
    loader without a process group refuses to iterate. workers: threads that decode, one per CPU.
    prefetch: batches in the making. buffers: a BufferPair that several loaders share.
    on_error: "raise" a SampleError, or "replace" a damaged picture, or a folder's file that cannot be read, by another
    of its batch: counted in `stats`, with a RuntimeWarning at the first. replace_limit: so many in an epoch of this
    rank; one more is a SampleError. Left out: a hundredth of its samples, at least 16.
    verify: "blocks" checks each block's CRC-32 as it arrives, each picture's own where a block is read in part (the
    genuine exporter's files carry neither); "none" does not.
    dct_scale: "auto" decodes at 1/2 or 1/4 size where the crop is that much larger than the output, "off" never.
    orientation: "exif" turns pictures upright as their EXIF says (level 0, folders; levels 1 to 3 carry no EXIF),
    "stored" takes them as they are stored, as torchvision does.
    indices: ids, or a bool per sample; weights: draw with replacement, one number per chosen sample.
    out: "uint8", "float32", "float16"; left out: "float32" with Normalize, else "uint8". layout: "NHWC", "NCHW" or
    "NHWC4"; left out: "NCHW" for floats, else "NHWC".
    Raises UsageError for arguments that cannot be.
    """

    def __init__(
        self,
        ds: Any,
        *,
        batch_size: int,
        ops: Sequence[Any] = (),
        mode: str = "auto",
        seed: int = 0,
        shuffle: str | bool = "auto",
        last: str = "short",
        rank: int | None = None,
        world_size: int | None = None,
        workers: int | None = None,
        io_workers: int = 2,
        prefetch_factor: int = 4,
        prefetch: int = 3,
        buffers: BufferPair | None = None,
        on_error: str = "raise",
        replace_limit: int | None = None,
        verify: str = "blocks",
        dct_scale: str = "off",
        orientation: str = "stored",
        indices: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        out: str | None = None,
        layout: str | None = None,
        with_ids: bool = False,
    ) -> None:
        self._options = {name: value for name, value in locals().items() if name not in ("self", "ds")}
        _check_options(self._options)
        self.dataset, self._set = open_set(ds)
        self.batch_size, self.last = batch_size, last
        self.workers = workers or usable_cpus()
        self.stats = LoaderStats()
        self._selection = select(len(self._set.labels), self._set.blocks, indices, weights)
        self._cut = RankCut(Ranks(rank, world_size), batch_size, cast(Last, last), len(self._selection))
        self._decoder = SampleDecoder(
            self._set,
            ops,
            out=out,
            layout=layout,
            dct_scale=dct_scale,
            replace=on_error == "replace",
            verify=verify == "blocks",
            with_ids=with_ids,
            orientation=orientation,
            entry_point_bytes=entry_point_budget(
                self._set, self._selection.ids, memory_limit().size_bytes // processes_on_this_machine()
            ),
        )
        self.picture_shape, self.dtype = self._decoder.picture_shape, self._decoder.dtype
        self.mode, self.mode_reason = self._choose_mode(mode)
        kind = _shuffle_kind(shuffle, weights is not None, self._set.is_training, self.mode, self._set.has_blocks)
        self._rule = OrderRule(int(seed), kind, int(prefetch_factor * io_workers))
        workers = 0 if self._decoder.is_instant(batch_size) else self.workers
        self._workforce = Workforce(workers, io_workers, prefetch, verify == "blocks")
        self._planners: dict[Cut, Planner] = {}  # the one in use
        self._resident: Fill | None = None
        self._pair = buffers or BufferPair()
        self._owns_pair = buffers is None
        self._pool = BatchPool((batch_size, *self.picture_shape), self.dtype, prefetch + 2)
        self._progress = Progress()
        self._closed = False

    # Order and state.

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on every rank."""
        return self._cut.num_batches()

    @property
    def rank(self) -> int:
        """Which process this is, of `world_size`. UsageError where that is not known yet."""
        return self._cut.ranks.find()[0]

    @property
    def world_size(self) -> int:
        """How many processes share an epoch. UsageError where that is not known yet."""
        return self._cut.ranks.find()[1]

    @property
    def epoch(self) -> int:
        """The epoch that `state_dict` speaks of: the one being read, or the next where that one is finished."""
        return self._progress.epoch

    @property
    def shuffle(self) -> Shuffle:
        """The kind of order in use: "none", "group", "full" or "weighted"."""
        return self._rule.shuffle

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be over this epoch; where it would anyway (say, in the middle), nothing changes.

        An iterator that has handed out nothing yet follows; one that has goes on as it was.
        """
        self._progress.set_epoch(epoch)

    def skip_batches(self, count: int) -> None:
        """Let the next pass leave out the first `count` batches of its epoch: none of them is read or decoded.

        Counted from the epoch's start: where a loaded state is as far or farther, nothing changes.
        """
        self._progress.skip_to(min(count * self._cut.find().step, len(self._selection)))

    def epoch_ids(self, epoch: int) -> NDArray[np.int64]:
        """The sample ids of a whole epoch in the order of all ranks together: int64 [n]."""
        return self._selection.order(self._rule, epoch).copy()

    def epoch_draws(self, epoch: int) -> NDArray[np.uint32]:
        """For every position of `epoch_ids`, how many earlier ones hold the same sample: uint32 [n]."""
        draws = self._selection.draws(self._rule, epoch)
        return np.zeros(len(self._selection), np.uint32) if draws is None else draws.copy()

    def state_dict(self) -> dict[str, int | str]:
        """Where this loader stands, counted in batches handed out: under 1 KB, JSON. The same on every rank."""
        return LoaderState.of(self._progress, self._rule, self._fingerprint).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly there, with any number of ranks and threads; takes over seed and kind of order. UsageError."""
        found = LoaderState.from_dict(state, samples=self._fingerprint, total=len(self._selection))
        warn_of_equal_repeats(found.rule, self._selection.repeats)
        self._rule = found.rule
        self._progress.go_to(found.epoch, found.position)

    def shuffle_quality(self, epoch: int = 0) -> ShuffleQuality:
        """How many classes a batch holds, against a uniform shuffle of the same samples."""
        return shuffle_quality(self._set.labels[self._selection.order(self._rule, epoch)], self.batch_size)

    def subset(self, indices: ArrayLike, **changes: Any) -> ImageLoader:
        """A new loader over these samples of the set, with the same options but for `changes`."""
        return ImageLoader(self.dataset, **{**self._options, "weights": None, "indices": indices, **changes})

    # Batches.

    def __iter__(self) -> BatchIterator:
        """The next epoch, or the rest of one after `load_state_dict`. Threads start at once, a batch takes it."""
        return self.iterate(self._pool)

    def iterate(self, arrays: BatchArrays) -> BatchIterator:
        """As `iter(loader)`, decoding into arrays that the caller lends (the torch adapter's pinned zones)."""
        if self._closed:
            raise UsageError("the loader was closed")

        def start_run(start: Start, position: int) -> Run:
            return self._start_run(start, position, arrays)

        limit = self._options["replace_limit"]
        if limit is None:
            limit = default_limit(len(self._selection) // self._cut.ranks.expected_size)
        replacements = Replacements(self.stats, limit)
        return BatchIterator(self._find_start, start_run, self._progress, self.stats, replacements)

    def batch(self, ids: ArrayLike, epoch: int | None = None, *, draws: ArrayLike = 0) -> tuple[Any, ...]:
        """Any samples as one batch, at once, as they are in `epoch` (default: the current one). On this thread.

        draws: one for all or one per sample, as in `epoch_draws`: which time that the epoch has the sample.
        """
        asked = select(len(self._set.labels), self._set.blocks, ids, None).ids
        at = self.epoch if epoch is None else epoch
        fill = self._resident
        if fill is not None and not fill.holds(asked):
            fill = None
        job = self._decoder.decode_now(asked, self._rule.seed, at, fill, draws=checked_draws(draws, len(asked)))
        self._decoder.finish(job)
        Replacements(self.stats, None).count(job)
        return job.output

    def memory_plan(self) -> MemoryPlan:
        """Every buffer of this loader, in bytes."""
        buffers: dict[str, int] = {}
        places = self._set.places
        if places is None:
            buffers["pixels of the set"] = 0 if self._set.pixels is None else self._set.pixels.nbytes
        elif self.mode == "fully":
            buffers["arena with all samples"] = needed_bytes(places, self._selection.ids)
        else:
            size = max(self._pair.size_bytes, self._buffer_bytes())
            shared = "" if self._owns_pair else " (shared)"
            buffers |= {f"buffer A{shared}": size, f"buffer B{shared}": size}
        arrays = self._options["prefetch"] + 2
        picture = int(np.prod(self.picture_shape)) * self.dtype.itemsize
        buffers[f"{arrays} batch arrays"] = arrays * self.batch_size * picture
        buffers[f"scratch of {self.workers} decode workers"] = self.workers * self._decoder.scratch_bytes
        buffers["pictures too large to decode side by side"] = self._decoder.large_picture_bytes()
        buffers["entry points into the pictures"] = self._decoder.entry_point_bytes
        per_position = 6 if self._selection.repeats else 4
        buffers["orders and tables"] = 8 * (per_position * len(self._selection) + 8 * len(self._set.labels))
        return MemoryPlan(buffers)

    def close(self) -> None:
        """Give all buffers back. Iterators that are still running keep theirs until they end. Twice is fine."""
        self._closed = True
        self._resident = None
        self._decoder.drop_entry_points()
        if self._owns_pair:
            self._pair.free()
            self._pair = BufferPair()
        self._pool = BatchPool((0,), np.uint8, 1)

    # Inside.

    def _choose_mode(self, mode: str) -> ModeChoice:
        if self._set.places is None:
            return ModeChoice("fully", "the set is one array of pixels")
        needed = needed_bytes(self._set.places, self._selection.ids)
        return choose_mode(mode, needed, memory_limit(), processes_on_this_machine())

    def _buffer_bytes(self) -> int:
        places = self._set.places
        assert places is not None
        return buffer_size(places, self._selection.ids, self._rule.group_blocks * BLOCK_SIZE)

    @cached_property
    def _fingerprint(self) -> str:
        places = self._set.places
        return self._selection.fingerprint(self._set.labels, None if places is None else places.size)

    def _find_start(self) -> Start:
        return Start(*self._progress.next, self._rule, self._cut.find())

    def _planner_of(self, cut: Cut) -> Planner:
        if cut not in self._planners:
            planner = Planner(
                self._selection,
                cut,
                self._workforce,
                labels=self._set.labels,
                places=self._set.places,
                has_blocks=self._set.has_blocks,
                whole_batches=self._decoder.gathers,
            )
            self._planners = {cut: planner}
        return self._planners[cut]

    def _start_run(self, start: Start, position: int, arrays: BatchArrays) -> Run:
        rule, epoch = start.rule, start.epoch
        memory, buffer_bytes = self._memory()
        planner = self._planner_of(start.cut)
        plan = planner.plan(rule, epoch, position, buffer_bytes)
        reads = None
        if isinstance(memory, Fill) and self._set.places is not None:
            reads = memory.missing_reads(self._set.places, plan.stream)

        def following() -> RunPlan:
            return planner.prepare(rule, epoch + 1, buffer_bytes)

        another = epoch + 1 < EPOCHS
        many = len(self._selection) > MANY_SAMPLES
        alone = isinstance(memory, BufferPair) and self._owns_pair  # else another loader takes the buffers next
        feed = None
        if memory is not None and self._set.pictures is not None:
            feed = ArenaFeed(
                plan,
                self._set.pictures,
                memory,
                self.stats,
                reads=reads,
                following=following if another and alone and len(plan.stream) else None,
            )
        run = Run(plan, self._decoder, arrays, self.stats, feed=feed, ahead=following if another and many else None)
        run.start()
        return run

    def _memory(self) -> tuple[Fill | BufferPair | None, int | None]:
        """What a run reads into, and the size of one arena where there are two."""
        places = self._set.places
        if places is None:
            return None, None
        if self.mode == "fully":
            if self._resident is None:
                self._resident = resident_fill(places, self._selection.ids)
            return self._resident, None
        self._pair.require(self._buffer_bytes())
        return self._pair, self._pair.size_bytes

    def place(self) -> tuple[Any, ...]:
        """What a copy needs, beside the set and the options, to go on where this loader is: picklable."""
        return copy(self._progress), self._rule, self._cut.ranks

    def stand_at(self, place: tuple[Any, ...]) -> None:
        """Go on where the loader was that `place` came from."""
        self._progress, self._rule, self._cut.ranks = place

    def __getstate__(self) -> dict[str, Any]:
        return {"ds": self.dataset, "options": self._options, "place": self.place()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ImageLoader.__init__(self, state["ds"], **state["options"])
        self.stand_at(state["place"])

    def __enter__(self) -> ImageLoader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"ImageLoader({self.dataset!r}, batch_size={self.batch_size}, mode={self.mode!r}, "
            f"shuffle={self.shuffle!r}, rank={self._cut.ranks})"
        )


def _shuffle_kind(asked: str | bool, weighted: bool, training: bool, mode: str, has_blocks: bool) -> Shuffle:
    if weighted:
        if asked not in ("auto", True):
            raise UsageError("weights draw the samples themselves: leave shuffle at 'auto'")
        return "weighted"
    if asked == "auto" and not training:
        return "none"
    if asked in ("auto", True):
        return "group" if mode == "partial" and has_blocks else "full"
    if asked is False:
        return "none"
    if asked not in SHUFFLES[:3]:
        raise UsageError(f"shuffle is {asked!r}; give 'auto', 'none', 'group' or 'full'")
    if asked == "group" and not has_blocks:
        raise UsageError("shuffle='group' needs blocks: a folder or an array has none")
    return asked


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise UsageError for what is wrong without a look at the set."""
    for name, allowed in (("last", LASTS), ("on_error", ("raise", "replace")), ("verify", ("blocks", "none"))):
        if options[name] not in allowed:
            raise UsageError(f"{name} is {options[name]!r}; give one of {', '.join(allowed)}")
    for name in ("batch_size", "workers", "io_workers", "prefetch_factor", "prefetch"):
        value = options[name]
        if value is None and name == "workers":
            continue
        if not isinstance(value, Integral) or value < 1:
            raise UsageError(f"{name} is {value!r}; give a number above 0")
    limit = options["replace_limit"]
    if limit is not None and (not isinstance(limit, Integral) or limit < 0):
        raise UsageError(f"replace_limit is {limit!r}; give a number of pictures per epoch, 0 or more")
    if not 0 <= options["seed"] < 2**64:
        raise UsageError(f"seed {options['seed']} is not in 0 .. 2^64 - 1")
