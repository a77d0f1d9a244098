"""The loader in tensors, on the host or on a GPU, where a torch DataLoader is expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self, Unpack

import torch

from trainload.errors import UsageError
from trainload.images.loading.image_loader import ImageLoader as NumpyLoader
from trainload.images.loading.options import AdapterOptions, Layout, options_with_ops
from trainload.images.ops.split import Out
from trainload.running.arguments import own_options
from trainload.running.delegate import LoaderDelegate
from trainload.running.iterator import BatchIterator
from trainload.torch.normalize import DeviceNormalize, split_normalize
from trainload.torch.station import DeviceBatches, TransferStation
from trainload.torch.turns import DataLoaderParts

Batch = tuple[torch.Tensor, ...]


class ImageLoader(DataLoaderParts, LoaderDelegate[NumpyLoader]):
    """`trainload.ImageLoader` in tensors: images [n, 3, height, width] on `device`, labels int64 [n], ids if asked for.

    Stands where a torch DataLoader is expected: len, `batch_size`, `dataset`, `set_epoch` (also through `sampler`),
    `state_dict`; Accelerate's `skip_first_batches` takes it. Under torch.distributed every rank reads its share. Takes
    the keywords of trainload.ImageLoader but `layout`, and these:

    device: where the tensors are to be; on a GPU batches pass a TransferStation. channels_last: strides as in
    torch.channels_last, else contiguous. normalize_on_device: pictures travel as uint8, a quarter of the bytes, and
    Normalize, the last of ops, runs on the device into `dtype`. fixed_addresses: on a GPU, batches alternate between
    two tensors whose addresses stay, for CUDA graphs (one per address): a batch is valid until the second next request.
    names: batches are dicts under these names, such as ("pixel_values", "labels") for transformers' Trainer.
    """

    def __init__(
        self,
        ds: Any,
        *,
        batch_size: int,
        ops: Sequence[Any] = (),
        device: str | torch.device = "cpu",
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
        self.device = torch.device(device)
        self._channels_last = channels_last
        self._names = names
        self._finish: DeviceNormalize | None = None
        if normalize_on_device:
            ops, normalize = split_normalize(ops)
            options["out"] = "uint8"
            self._finish = DeviceNormalize(normalize, dtype, self.device, channels_last=channels_last)
        layout: Layout = "NHWC" if channels_last else "NCHW"
        super().__init__(NumpyLoader(ds, batch_size=batch_size, ops=ops, layout=layout, **options), given)
        self._shape = (batch_size, *self.loader.picture_shape)
        self._host_dtype = getattr(torch, str(self.loader.dtype))
        self._fixed: DeviceBatches | None = None
        if fixed_addresses and self.device.type == "cuda":
            self._fixed = DeviceBatches(self._shape, dtype if self._finish else self._host_dtype, self.device)

    def with_ops(self, ops: Sequence[Any], *, out: Out | None = None, batch_size: int | None = None) -> Self:
        """A new loader with other operations over the same memory, as `trainload.ImageLoader.with_ops` says."""
        loader = type(self)(self.dataset, **options_with_ops(self._options, ops, out, batch_size))
        loader.loader.go_on_from(self.loader)
        return loader

    def __iter__(self) -> Iterator[Any]:
        """The next epoch, or the rest of one after `load_state_dict`. Work starts at once; the first batch takes it."""
        if self.device.type != "cuda":
            return self._named(self._host_batches(iter(self.loader)))
        station = TransferStation(self._shape, self._host_dtype, self.device, finish=self._finish, fixed=self._fixed)
        return self._named(self._device_batches(self.loader.iterate(station), station))

    def _named(self, batches: Iterator[Batch]) -> Iterator[Any]:
        return batches if self._names is None else map(self._with_names, batches)

    def _with_names(self, batch: Batch) -> dict[str, torch.Tensor]:
        assert self._names is not None
        if len(self._names) != len(batch):
            raise UsageError(f"names are {', '.join(self._names)}, but a batch has {len(batch)} parts")
        return dict(zip(self._names, batch))

    def _host_batches(self, batches: BatchIterator) -> Iterator[Batch]:
        for images, *others in batches:
            tensor = torch.from_numpy(images).to(self.device)
            if self._finish is not None:
                tensor = self._finish(tensor)
            yield (self._as_nchw(tensor), *(torch.from_numpy(part).to(self.device) for part in others))

    def _device_batches(self, batches: BatchIterator, station: TransferStation) -> Iterator[Batch]:
        for images, *others in batches:
            tensor, *rest = station.send(images, others)
            yield (self._as_nchw(tensor), *rest)

    def _as_nchw(self, images: torch.Tensor) -> torch.Tensor:
        return images.permute(0, 3, 1, 2) if self._channels_last else images
