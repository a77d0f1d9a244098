"""The loader in tensors, on the host or on a GPU, where a torch DataLoader is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, Unpack

import torch
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.loading.image_loader import ImageLoader as NumpyLoader
from trainload.images.loading.options import AdapterOptions, Layout, options_with_ops
from trainload.images.ops.protocols import Operation
from trainload.images.ops.split import Out
from trainload.images.reading.image_set import GivenSet
from trainload.running.arguments import own_options
from trainload.running.delegate import LoaderDelegate
from trainload.running.iterator import BatchIterator
from trainload.torch.normalize import DeviceNormalize, split_normalize
from trainload.torch.station import DeviceBatches, StationsInTurn, TransferStation
from trainload.torch.turns import DataLoaderParts

Send = Callable[[NDArray[Any], Sequence[NDArray[Any]]], Sequence[torch.Tensor]]


@dataclass
class Target:
    """A device, what it does to pictures that arrive, and the tensors that they lie in where these stay."""

    device: torch.device
    finish: DeviceNormalize | None = None
    fixed: DeviceBatches | None = None

    def take(self, images: NDArray[Any], others: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
        """A batch of the host on this device, where that is no GPU: no transfer station is needed."""
        tensor = torch.from_numpy(images).to(self.device)
        if self.finish is not None:
            tensor = self.finish(tensor)
        return [tensor, *(torch.from_numpy(part).to(self.device) for part in others)]


class ImageLoader(DataLoaderParts, LoaderDelegate[NumpyLoader]):
    """`trainload.ImageLoader` in tensors: images [n, 3, height, width] on `device`, labels int64 [n], ids if asked for.

    Stands where a torch DataLoader is expected: len, `batch_size`, `dataset`, `set_epoch` (also through `sampler`),
    `state_dict`; Accelerate's `skip_first_batches` takes it. Under torch.distributed every rank reads its share. Takes
    the keywords of trainload.ImageLoader but `layout`, and these:

    device: where the tensors are to be; on a GPU batches pass a TransferStation. devices: several, for training with
    several GPUs in one process: each step is a tuple with a batch of `batch_size` for each, in their order. They are
    those of as many ranks in a row (docs/loading.md); `len` counts steps. channels_last: strides as in
    torch.channels_last, else contiguous. normalize_on_device: pictures travel as uint8, a quarter of the bytes, and
    Normalize, the last of ops, runs on the device into `dtype`. fixed_addresses: on a GPU, batches alternate between
    two tensors whose addresses stay, for CUDA graphs (one per address): a batch is valid until the second next request.
    names: batches are dicts under these names, such as ("pixel_values", "labels") for transformers' Trainer.
    """

    def __init__(
        self,
        ds: GivenSet,
        *,
        batch_size: int,
        ops: Sequence[Operation] = (),
        device: str | torch.device = "cpu",
        devices: Sequence[str | torch.device] | None = None,
        channels_last: bool = True,
        normalize_on_device: bool = False,
        dtype: torch.dtype = torch.float32,
        fixed_addresses: bool = False,
        names: Sequence[str] | None = None,
        **options: Unpack[AdapterOptions],
    ) -> None:
        if "layout" in options:
            raise UsageError("tensors have the layout that channels_last says: leave layout out")
        given = own_options(locals(), "ds", "options") | options
        self.devices = None if devices is None else _checked_devices(devices, device)
        self.device = torch.device(device) if self.devices is None else self.devices[0]
        self._channels_last = channels_last
        self._names = names
        normalize = None
        if normalize_on_device:
            ops, normalize = split_normalize(ops)
            options["out"] = "uint8"
        layout: Layout = "NHWC" if channels_last else "NCHW"
        super().__init__(NumpyLoader(ds, batch_size=batch_size, ops=ops, layout=layout, **options), given)
        self._shape = (batch_size, *self.loader.picture_shape)
        self._host_dtype = getattr(torch, str(self.loader.dtype))
        self._targets = [Target(one) for one in self.devices or (self.device,)]
        for target in self._targets:
            if normalize is not None:
                target.finish = DeviceNormalize(normalize, dtype, target.device, channels_last=channels_last)
            if fixed_addresses and target.device.type == "cuda":
                target.fixed = DeviceBatches(self._shape, dtype if normalize else self._host_dtype, target.device)
        if self.devices is not None:
            self.loader.deal(len(self.devices))

    def with_ops(self, ops: Sequence[Operation], *, out: Out | None = None, batch_size: int | None = None) -> Self:
        """A new loader with other operations over the same memory, as `trainload.ImageLoader.with_ops` says."""
        loader = type(self)(self.dataset, **options_with_ops(self._options, ops, out, batch_size))
        loader.loader.go_on_from(self.loader)
        return loader

    def __iter__(self) -> Iterator[Any]:
        """The next epoch, or the rest of one after `load_state_dict`. Work starts at once; the first batch takes it."""
        if self.device.type == "cuda":
            stations = [
                TransferStation(self._shape, self._host_dtype, one.device, finish=one.finish, fixed=one.fixed)
                for one in self._targets
            ]
            steps = self._steps(self.loader.iterate(StationsInTurn(stations)), [station.send for station in stations])
        else:
            steps = self._steps(iter(self.loader), [one.take for one in self._targets])
        return steps if self.devices is not None else (batch for (batch,) in steps)

    def _steps(self, batches: BatchIterator, sends: Sequence[Send]) -> Iterator[tuple[Any, ...]]:
        """A batch for each device at a time."""
        while True:
            try:
                jobs = batches.next_step(len(sends))
            except StopIteration:
                return
            yield tuple(self._batch(send(job.output[0], job.output[1:])) for send, job in zip(sends, jobs))

    def _batch(self, parts: Sequence[torch.Tensor]) -> Any:
        images, *others = parts
        batch = (images.permute(0, 3, 1, 2) if self._channels_last else images, *others)
        if self._names is None:
            return batch
        if len(self._names) != len(batch):
            raise UsageError(f"names are {', '.join(self._names)}, but a batch has {len(batch)} parts")
        return dict(zip(self._names, batch))


def _checked_devices(devices: Sequence[str | torch.device], device: str | torch.device) -> tuple[torch.device, ...]:
    found = tuple(torch.device(one) for one in devices)
    if not found or len({one.type for one in found}) > 1:
        raise UsageError(f"devices are {[str(one) for one in found]}; give one or more, all GPUs or all the CPU")
    if torch.device(device) != torch.device("cpu"):
        raise UsageError("give device= for one, devices= for several, not both")
    return found
