"""A map-style Dataset for torch.utils.data.DataLoader: worker processes read and decode, one picture at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from trainload.errors import SampleError, UsageError
from trainload.imaging.decode import decode_by_pillow
from trainload.loading.decoding import SampleDecoder
from trainload.loading.sets import open_set
from trainload.loading.stats import LoaderStats


class ImageDataset(Dataset[tuple[Any, int]]):
    """dataset[i] -> (picture, label) of any set that `trainload.open` reads. Safe to fork, spawn and pickle.

    With `ops`: a tensor [3, h, w] as the loader makes it, random numbers by (seed, epoch, sample). Without: a Pillow
    picture in RGB, passed through `transform` where it is given (torchvision's, say).
    Raises SampleError for a picture that cannot be decoded.
    """

    def __init__(
        self,
        ds: Any,
        *,
        ops: Sequence[Any] | None = None,
        transform: Callable[[Image.Image], Any] | None = None,
        seed: int = 0,
        out: str | None = None,
    ) -> None:
        if ops is not None and transform is not None:
            raise UsageError("give ops (trainload's) or transform (yours), not both")
        self._arguments: dict[str, Any] = {"ops": ops, "transform": transform, "seed": seed, "out": out}
        self.reader, self._set = open_set(ds)
        self.classes = list(getattr(self.reader, "class_names", ()))
        self.targets = self._set.labels.tolist()
        self.epoch = 0
        self._transform = transform
        self._decoder: SampleDecoder | None = None
        if ops is not None:
            self._decoder = SampleDecoder(
                self._set, ops, out=out, layout="NCHW", dct_scale="off", replace=False, verify=True,
                with_ids=False, stats=LoaderStats(),
            )  # fmt: skip

    def set_epoch(self, epoch: int) -> None:
        """Which epoch's random numbers `ops` draw. DataLoader workers copy the dataset: set it before iterating."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._set.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"{index} is outside 0 to {len(self) - 1}")
        return self.__getitems__([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, int]]:
        """Several samples at once, as the DataLoader asks for a batch: neighbours in the file are read together."""
        if self._decoder is not None:
            images, labels = self._decode(self._decoder, np.asarray(indices, np.int64))
            return list(zip(images, labels.tolist()))
        return [(self._picture(index), int(self._set.labels[index])) for index in indices]

    def _decode(self, decoder: SampleDecoder, ids: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Any, Any]:
        job = decoder.decode_now(ids, self._arguments["seed"], self.epoch)
        decoder.finish(job)
        images, labels = job.output
        return torch.from_numpy(images), labels

    def _picture(self, index: int) -> Any:
        if self._set.pixels is not None:
            pixels = self._set.pixels[index]
            picture = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
        else:
            picture = Image.fromarray(self._decode_whole(index))
        return picture if self._transform is None else self._transform(picture)

    def _decode_whole(self, index: int) -> Any:
        assert self._set.pictures is not None
        origin = self._set.pictures.origin(index)
        try:
            return decode_by_pillow(self.reader[index].data)  # type: ignore[index]
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise SampleError(
                str(error), sample=index, block=origin.block, source=origin.source, path=origin.path
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.reader, self._arguments, self.epoch)


def _rebuild(reader: Any, arguments: dict[str, Any], epoch: int) -> ImageDataset:
    dataset = ImageDataset(reader, **arguments)
    dataset.set_epoch(epoch)
    return dataset
