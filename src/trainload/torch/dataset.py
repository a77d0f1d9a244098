"""A map-style Dataset for torch.utils.data.DataLoader: worker processes read and decode, one picture at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from trainload.codecs.picture import decode_whole
from trainload.errors import SampleError, UsageError
from trainload.images.decode import check_orientation
from trainload.images.loading.options import Orientation
from trainload.images.loading.picture_sets import open_set
from trainload.images.loading.samples import SampleDecoder
from trainload.images.ops.protocols import Operation
from trainload.images.ops.split import Out
from trainload.images.reading.image_set import GivenSet
from trainload.running.order import checked_seed
from trainload.torch.asks import Asks


class ImageDataset(Dataset[tuple[Any, int]]):
    """dataset[i] -> (picture, label) of any set that `trainload.open` reads. Safe to fork, spawn and pickle.

    With `ops`: a tensor [3, h, w] as the loader makes it. Without: a Pillow picture in RGB, passed through `transform`
    where it is given (torchvision's, say). orientation: as for the loader.

    `ops` draw anew each time that a sample is asked for, with no call and with any workers: all of them count in
    shared memory, and the k-th ask for a sample, from 0, has the random numbers of (seed, epoch 0, sample, draw k).
    Where each epoch asks for each sample once and is read to its end, epochs are the same pictures for any number and
    kind of workers, persistent or not. What was prefetched and thrown away counts as asked: after a `break` the draws
    go on, and none comes back. Where a sampler repeats a sample, its draws go to batches as workers get to them.

    `set_epoch(e)` makes the next ask for every sample (seed, e, sample, draw 0), which is what trainload.ImageLoader
    has in epoch e, and counts on from there. Call it before `iter` to make an epoch again, or to resume: a new dataset
    counts from 0. What persistent workers still prefetch after a `break` counts into the new epoch. Under
    torch.distributed each rank counts for itself, in draws of its own (trainload/torch/asks.py): a sample that moves to
    another rank is drawn anew, too. Once an epoch was named, ranks that ask for the same sample in it begin with the
    same picture.

    Raises SampleError for a picture that cannot be decoded, UsageError where shared memory has no room for the counts
    (4 bytes per sample).
    """

    def __init__(
        self,
        ds: GivenSet,
        *,
        ops: Sequence[Operation] | None = None,
        transform: Callable[[Image.Image], Any] | None = None,
        seed: int = 0,
        out: Out | None = None,
        orientation: Orientation = "stored",
    ) -> None:
        if ops is not None and transform is not None:
            raise UsageError("give ops (trainload's) or transform (yours), not both")
        check_orientation(orientation)
        arguments = {
            "ops": ops,
            "transform": transform,
            "seed": checked_seed(seed),
            "out": out,
            "orientation": orientation,
        }
        self._open(ds, arguments, None)

    def _open(self, ds: GivenSet, arguments: dict[str, Any], asks: Asks | None) -> None:
        self._arguments = arguments
        self.reader, self._set = open_set(ds)
        self.classes = list(getattr(self.reader, "class_names", ()))
        self.targets = self._set.labels.tolist()
        self._transform = arguments["transform"]
        self._decoder: SampleDecoder | None = None
        if arguments["ops"] is not None:
            self._decoder = SampleDecoder(
                self._set,
                arguments["ops"],
                out=arguments["out"],
                layout="NCHW",
                dct_scale="off",
                replace=False,
                verify=True,
                with_ids=False,
                orientation=arguments["orientation"],
            )
        self._asks = asks or Asks(0 if self._decoder is None else len(self._set.labels))

    @property
    def epoch(self) -> int:
        """The one that `set_epoch` named, in every worker; 0 where none was."""
        return self._asks.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let `ops` draw the random numbers of this epoch from here on, in every worker, persistent ones too."""
        self._asks.set_epoch(epoch)

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
        epoch, draws = self._asks.take(ids)
        job = decoder.decode_now(ids, self._arguments["seed"], epoch, draws=draws)
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
            encoded = self._encoded(index, origin.block is None)
            return decode_whole(encoded, turn=self._arguments["orientation"] == "exif")
        except ValueError as error:
            raise SampleError(
                str(error), sample=index, block=origin.block, source=origin.source, path=origin.path
            ) from error

    def _encoded(self, index: int, is_file: bool) -> Any:
        """The bytes of a picture; one in a file of its own that cannot be read is a SampleError."""
        if not is_file:
            return self.reader[index].data
        assert self._set.pictures is not None
        data = bytearray(int(self._set.pictures.places.size[index]))
        self._set.pictures.read(index, 0, data)
        return memoryview(data)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.reader, self._arguments, self._asks)


def _rebuild(reader: Any, arguments: dict[str, Any], asks: Asks) -> ImageDataset:
    dataset = ImageDataset.__new__(ImageDataset)
    dataset._open(reader, arguments, asks)
    return dataset
