"""The keywords of ImageLoader as types: for editors, for the adapters that pass them on, and the group for experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, TypedDict

from numpy.typing import ArrayLike

from trainload.errors import UsageError
from trainload.images.loading.buffers import BufferPair
from trainload.images.loading.modes import AskedMode
from trainload.images.ops.protocols import Operation
from trainload.images.ops.split import Out
from trainload.machine.numa import AskedCpus
from trainload.running.arguments import FOREIGN, check_count
from trainload.running.order import AskedShuffle, Last

OnError = Literal["raise", "replace"]
Verify = Literal["blocks", "file", "none"]
DctScale = Literal["off", "auto"]
Orientation = Literal["stored", "exif"]
Keep = Literal["pixels"]
Layout = Literal["NHWC", "NCHW", "NHWC4"]


DISK_READERS, NETWORK_READERS = 2, 8
GROUP_BLOCKS = 8  # on every machine, since it is part of the order


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the threads of an ImageLoader share work and memory. For experts; nothing of it changes what a batch holds.

    prefetch: batches in the making, beside the one in use. io_workers: threads that read; None for DISK_READERS, of a
    set on a server NETWORK_READERS. buffers: a BufferPair that several loaders share, one at a time. cpus: numbers of
    the CPUs that the loader's threads run on, or "numa": each thread on one NUMA node, in turn, so that it keeps to
    that node's memory (Linux). Raises UsageError for what cannot be.
    """

    prefetch: int = 3
    io_workers: int | None = None
    buffers: BufferPair | None = None
    cpus: AskedCpus = None

    def __post_init__(self) -> None:
        check_count("prefetch", self.prefetch)
        if self.io_workers is not None:
            check_count("io_workers", self.io_workers)

    def readers(self, remote: bool) -> int:
        """Threads that read a set, which lies on a server or not."""
        return self.io_workers or (NETWORK_READERS if remote else DISK_READERS)


class AdapterOptions(TypedDict, total=False):
    """The keywords of ImageLoader that every adapter passes on as they are."""

    mode: AskedMode
    seed: int
    shuffle: AskedShuffle
    group_blocks: int
    lanes: int
    last: Last
    rank: int | None
    world_size: int | None
    workers: int | None
    on_error: OnError
    replace_limit: int | None
    verify: Verify
    dct_scale: DctScale
    orientation: Orientation
    keep: Keep | None
    repeat: int
    indices: ArrayLike | None
    weights: ArrayLike | None
    out: Out | None
    with_ids: bool
    tuning: Tuning


class _Required(TypedDict):
    batch_size: int


class ImageOptions(AdapterOptions, _Required, total=False):
    """All keywords of ImageLoader."""

    ops: Sequence[Operation]
    layout: Layout | None


def options_with_ops(
    options: Mapping[str, Any], ops: Sequence[Operation], out: Out | None, batch_size: int | None
) -> dict[str, Any]:
    """The keywords of a loader with other operations; None leaves what is there."""
    given = {"out": out, "batch_size": batch_size}
    return {**options, "ops": ops, **{name: value for name, value in given.items() if value is not None}}


def check_replace_limit(limit: int | None) -> None:
    """Raise UsageError for what is no number of pictures."""
    if limit is not None and (not isinstance(limit, Integral) or limit < 0):
        raise UsageError(f"replace_limit is {limit!r}; give a number of pictures per epoch, 0 or more")


def check_repeat(repeat: int, batch_size: int) -> None:
    """Raise UsageError where batches cannot hold whole pictures."""
    check_count("repeat", repeat)
    check_count("batch_size", batch_size)
    if batch_size % repeat:
        raise UsageError(
            f"repeat is {repeat} and batch_size {batch_size}: give a multiple of {repeat}, so that the samples of a "
            "picture come in one batch"
        )


HINTS = FOREIGN | {
    "transform": "ops=[...] are operations per picture; a transform of your own: trainload.torch.ImageDataset",
    "target_transform": "map the labels in the loop, or in a callable in ops, which gets (images, labels) of a batch",
    "collate_fn": "ops=[..., your_callable] gets (images, labels) of a whole batch",
    "prefetch_factor": "tuning=trainload.Tuning(prefetch=N) is the number of batches in the making",
    **{
        name: f"tuning=tl.Tuning({name}=...) holds what is for experts"
        for name in ("prefetch", "io_workers", "buffers", "cpus")
    },
}
