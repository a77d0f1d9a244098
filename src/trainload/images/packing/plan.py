"""What all volumes of a set agree on before the first block, so that each can be packed alone, anywhere.

`make_plan` looks at the source and decides; a PackPlan says for each volume which pictures it takes and in which order.
Of the pictures only those are decoded whose sizes a decision needs: the ones larger than a block at level 0, and the
first 64 MB of samples at levels 1 to 3, whose sizes give the block headers theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import features

from trainload.errors import UsageError
from trainload.images.format import dts
from trainload.images.packing import arrange, block_cutting
from trainload.images.packing.journal import Refusal
from trainload.images.packing.levels import LevelOptions
from trainload.images.packing.packed_picture import PackedPicture
from trainload.images.packing.picture_stream import PictureStream
from trainload.images.packing.progress import Meter, PackProgress
from trainload.images.packing.sources import PictureTable
from trainload.images.packing.workers import Workers
from trainload.images.packing.writer import SetFacts

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions:
    """The switches of `packing.images.pack_images` that the bytes depend on, or what is refused; it explains them."""

    level: int
    is_training: bool
    reference: bool
    min_blocks: int | None
    volumes: int
    seed: int
    exif: Literal["ignore", "apply"]
    oversize: Literal["reencode", "refuse"]
    on_error: Literal["raise", "skip"]
    check: Literal["markers", "decode"]
    val_set_prep: bool


@dataclass(frozen=True, slots=True)
class Versions:
    """Of what makes the bytes of samples. libjpeg: of the library inside Pillow, "" where Pillow has none."""

    trainload: str
    pillow: str
    libjpeg: str

    @staticmethod
    def here() -> Versions:
        """Those of this process."""
        turbo = features.version_feature("libjpeg_turbo")
        return Versions(version("trainload"), PIL.__version__, turbo or features.version_codec("jpg") or "")

    def __str__(self) -> str:
        return f"trainload {self.trainload}, Pillow {self.pillow}, libjpeg {self.libjpeg or 'none'}"


@dataclass(frozen=True)
class PackPlan:
    """What `pack_volume` and `finish` need beside the source: made once, the same on every machine.

    oversize: {picture: bytes of its sample} of those larger than a block at level 0, once they are re-encoded.
    refusals: pictures that no volume takes, known before the first block (levels 1 to 3 find theirs later).
    """

    table: PictureTable
    options: PackOptions
    versions: Versions
    block_header_size: int
    oversize: dict[int, int]
    refusals: tuple[Refusal, ...]

    def check_versions(self) -> None:
        """Raise UsageError unless this process makes the samples that were planned."""
        here = Versions.here()
        if here != self.versions:
            raise UsageError(
                f"the plan was made with {self.versions} and this process has {here}, so its samples may differ: "
                "give all machines the same versions, or plan anew with these"
            )

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What two packs must share to be the same, as JSON values."""
        return identity(self.table, self.options, self.versions)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that was decided, hexadecimal."""
        decided = [self.identity, self.block_header_size, sorted(self.oversize.items()), sorted(self.refusals)]
        return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()

    @property
    def facts(self) -> SetFacts:
        table, options = self.table, self.options
        return SetFacts(
            level=options.level,
            is_training=options.is_training,
            reference=options.reference,
            class_names=table.class_names,
            labels=table.labels,
            sizes=table.sizes,
            block_header_size=self.block_header_size,
            parameters=parameters(options, self.versions),
            val_set_prep=options.val_set_prep,
        )

    def pictures(self, volume: int) -> Index:
        """The pictures of a volume in random order, int64; at levels 1 to 3 with those that turn out to be refused."""
        order = self._fitting[_random_order(len(self._fitting), self.options.seed)]
        return np.array_split(order, self.options.volumes)[volume]

    def blocks(self, volume: int) -> list[Index]:
        """Level 0: the pictures of each block of a volume."""
        capacity = dts.BLOCK_SIZE - self.block_header_size
        if self.options.reference:
            plan = arrange.reference_arrangement(self._sizes[self._fitting], capacity, self.options.min_blocks)
            return [self._fitting[block] for block in plan]
        most = dts.block_capacity(self.block_header_size)
        return arrange.mixed_arrangement(self._sizes, self.pictures(volume), capacity, most)

    @cached_property
    def _fitting(self) -> Index:
        fits = np.ones(len(self.table), bool)
        fits[[number for number, _, _ in self.refusals]] = False
        return np.flatnonzero(fits)

    @cached_property
    def _sizes(self) -> Index:
        """Bytes of each sample at level 0."""
        sizes = self.table.sizes.copy()
        sizes[list(self.oversize)] = list(self.oversize.values())
        return sizes


class Window(NamedTuple):
    """The first samples of volume 0, refused ones among them, that a plan had to make: its packer may use them."""

    pictures: list[PackedPicture]
    refusals: tuple[Refusal, ...]


class Head:
    """The samples of volume 0, of which the first are made already: to be taken once, or closed."""

    def __init__(self, made: list[PackedPicture], rest: Generator[PackedPicture, None, None]) -> None:
        self.made = made
        self._rest = rest
        self._samples = chain(made, rest)

    def take(self) -> Iterator[PackedPicture]:
        """All of them; what is made already is freed once it is taken."""
        self.made = []
        samples, self._samples = self._samples, chain()
        return samples

    def close(self) -> None:
        """Let the workers begin with something else."""
        self._samples = chain()
        self._rest.close()


def make_plan(
    table: PictureTable, options: PackOptions, *, jobs: int = 1, progress: Callable[[PackProgress], None] | None = None
) -> PackPlan:
    """Decide what the volumes of `table` share.

    Raises UsageError for a table that cannot be packed so, SampleError where a picture that was looked at is refused
    and options.on_error is "raise", and what reading the source raises.
    """
    return make_plan_and_window(table, options, jobs=jobs, progress=progress)[0]


def make_plan_and_window(
    table: PictureTable, options: PackOptions, *, jobs: int = 1, progress: Callable[[PackProgress], None] | None = None
) -> tuple[PackPlan, Window]:
    """As `make_plan`; with what it made of volume 0, at most 64 MB."""
    meter = Meter(table.files.path, len(table), progress)
    window = Window([], ())
    with plan_workers(table, options, jobs) as workers:
        stream = PictureStream(table, workers, options.on_error, meter.tick)
        plan, head = plan_and_head(table, options, stream)
        if head:
            window = Window(head.made, tuple(stream.take_refusals()))
            head.close()
    return plan, window


def plan_and_head(table: PictureTable, options: PackOptions, stream: PictureStream) -> tuple[PackPlan, Head | None]:
    """As `make_plan`, with a stream from `plan_workers`; and at levels 1 to 3 the samples that were made for it."""
    check_count(table, options)
    size = _known_block_header_size(table, options)
    versions = Versions.here()
    plan = PackPlan(table, options, versions, size, {}, ())
    if options.level == 0:
        oversize, refusals = _fitted(table, stream, dts.BLOCK_SIZE - size)
        return replace(plan, oversize=oversize, refusals=refusals), None
    samples = stream.packed(plan.pictures(0))
    if options.reference:
        return plan, Head([], samples)
    window = block_cutting.first_window(samples)
    size = block_cutting.block_header_size_for((len(picture.data) for picture in window), size)
    return replace(plan, block_header_size=size), Head(window, samples)


@lru_cache(maxsize=1)  # a second for a million pictures, asked for by every volume
def _random_order(count: int, seed: int) -> Index:
    order = arrange.random_order(count, seed)
    order.setflags(write=False)
    return order


def plan_workers(table: PictureTable, options: PackOptions, jobs: int) -> Workers:
    """The processes that make the samples of every volume of a plan."""
    return Workers(table.files, _level_options(table, options), min(jobs, len(table)))


def check_count(table: PictureTable, options: PackOptions, most_blocks: int | None = None) -> None:
    """Raise UsageError where there are fewer pictures than volumes.

    most_blocks: of a volume, where its place has a limit; at level 0, whose sizes are known, a volume that cannot keep
    it is refused too.
    """
    if len(table) < options.volumes:
        raise UsageError(f"{len(table)} pictures cannot fill {options.volumes} volumes: {table.files.path}")
    blocks = int(table.sizes.sum()) // dts.BLOCK_SIZE
    if most_blocks is not None and options.level == 0 and blocks > most_blocks * options.volumes:
        raise UsageError(
            f"an object of a bucket has at most {most_blocks:,} blocks, and the set {blocks:,}: pack "
            f"{-(-blocks // (most_blocks * 9 // 10))} volumes or more"
        )


def parameters(options: PackOptions, versions: Versions) -> dict[str, Any]:
    """What the file says about its making."""
    return {
        "tool": f"trainload {versions.trainload}",
        "pillow": versions.pillow,
        "level": options.level,
        "arrangement": "reference" if options.reference else "mixed",
        "seed": options.seed,
        "exif": options.exif,
        "oversize": options.oversize,
        "restart_marker_rows": int(options.level > 0 and not options.reference),
    }


def identity(table: PictureTable, options: PackOptions, versions: Versions) -> dict[str, Any]:
    """What two packs must share to be the same, as JSON values; known before a plan is made."""
    return parameters(options, versions) | {
        "libjpeg": versions.libjpeg,
        "split": "train" if options.is_training else "val",
        "min_blocks": options.min_blocks,
        "volumes": options.volumes,
        "check": options.check,
        "source": _source_digest(table),
    }


def _source_digest(table: PictureTable) -> str:
    content = hashlib.sha256("\0".join(table.class_names).encode("utf-8", "surrogateescape"))
    content.update(table.names.blob)
    content.update(table.sizes.tobytes())
    return content.hexdigest()


def _known_block_header_size(table: PictureTable, options: PackOptions) -> int:
    """Bytes of each block header as far as the source alone tells: at levels 1 to 3 of our own, the least."""
    least = dts.BLOCK_HEADER_SIZE[options.level]
    if options.reference or options.level > 0:
        return least
    return block_cutting.block_header_size_for(np.minimum(table.sizes, dts.BLOCK_SIZE), least)


def _level_options(table: PictureTable, options: PackOptions) -> LevelOptions:
    header = _known_block_header_size(table, options)
    if options.level > 0 and not options.reference:
        header = block_cutting.MAX_BLOCK_HEADER_SIZE  # samples come before it is known
    return LevelOptions(
        level=options.level,
        capacity=dts.BLOCK_SIZE - header,
        reference=options.reference,
        exif=options.exif,
        oversize=options.oversize,
        decode=options.check == "decode",
    )


def _fitted(table: PictureTable, stream: PictureStream, capacity: int) -> tuple[dict[int, int], tuple[Refusal, ...]]:
    """Level 0: the pictures larger than a block, re-encoded to know their size, or refused."""
    oversize = {}
    for picture in stream.packed(np.flatnonzero(table.sizes > capacity)):
        if not picture.is_refused:
            oversize[picture.number] = len(picture.data)
    return oversize, tuple(stream.take_refusals())
