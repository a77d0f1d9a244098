"""The loader in tensors, on the host or on a GPU, where a torch DataLoader is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.loading.loader import ImageLoader as NumpyLoader
from trainload.running.iterator import BatchIterator
from trainload.running.stats import LoaderStats
from trainload.torch.normalize import DeviceNormalize, split_normalize
from trainload.torch.station import DeviceBatches, TransferStation
from trainload.torch.turns import DataLoaderParts

Batch = tuple[torch.Tensor, ...]


class ImageLoader(DataLoaderParts):
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
        **options: Any,
    ) -> None:
        if "layout" in options:
            raise UsageError("tensors have the layout that channels_last says: leave layout out")
        self._options = {name: value for name, value in locals().items() if name not in ("self", "ds", "options")}
        self._options |= options
        self.device = torch.device(device)
        self._channels_last = channels_last
        self._names = names
        self._finish: DeviceNormalize | None = None
        if normalize_on_device:
            ops, normalize = split_normalize(ops)
            options["out"] = "uint8"
            self._finish = DeviceNormalize(normalize, dtype, self.device, channels_last=channels_last)
        layout = "NHWC" if channels_last else "NCHW"
        self.loader = NumpyLoader(ds, batch_size=batch_size, ops=ops, layout=layout, **options)
        self._shape = (batch_size, *self.loader.picture_shape)
        self._host_dtype = getattr(torch, str(self.loader.dtype))
        self._fixed: DeviceBatches | None = None
        if fixed_addresses and self.device.type == "cuda":
            self._fixed = DeviceBatches(self._shape, dtype if self._finish else self._host_dtype, self.device)
        self.dataset = self.loader.dataset
        self.batch_size = batch_size
        self.drop_last = self.loader.last == "drop"

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank."""
        return len(self.loader)

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

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be over this epoch; where it would anyway (say, in the middle), nothing changes."""
        self.loader.set_epoch(epoch)

    def skip_batches(self, count: int) -> None:
        """Let the next pass leave out the first `count` batches of its epoch, unread."""
        self.loader.skip_batches(count)

    @property
    def epoch(self) -> int:
        """The epoch that `state_dict` speaks of: the one being read, or the next where that one is finished."""
        return self.loader.epoch

    def epoch_ids(self, epoch: int) -> NDArray[np.int64]:
        """The sample ids of a whole epoch in the order of all ranks together: int64 [n]."""
        return self.loader.epoch_ids(epoch)

    @property
    def stats(self) -> LoaderStats:
        """What the loader did and where its time went."""
        return self.loader.stats

    def state_dict(self) -> dict[str, int | str]:
        """Where this loader stands, in batches handed out: under 1 KB, the same on every rank."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly there, with any number of ranks and threads."""
        self.loader.load_state_dict(state)

    def close(self) -> None:
        """Give the buffers back."""
        self.loader.close()

    def __enter__(self) -> ImageLoader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.dataset, self._options, self.loader.place())


def _rebuild(ds: Any, options: dict[str, Any], place: tuple[Any, ...]) -> ImageLoader:
    loader = ImageLoader(ds, **options)
    loader.loader.stand_at(place)
    return loader
