"""The loader of recordings in tensors, where a torch DataLoader is expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Unpack

from trainload.recordings.samples.clip_dataset import ClipDataset
from trainload.recordings.samples.collate import ClipBatch
from trainload.recordings.samples.hyperframe_loader import HyperframeLoader as ArrayLoader
from trainload.recordings.samples.options import HyperframeOptions
from trainload.running.delegate import LoaderDelegate
from trainload.torch.recordings import TensorBatch, tensors
from trainload.torch.turns import DataLoaderParts


class HyperframeLoader(DataLoaderParts, LoaderDelegate[ArrayLoader]):
    """trainload.HyperframeLoader that gives TensorBatches; conversion shares the arrays' memory.

    Takes the keywords of trainload.HyperframeLoader; batch_op gets TensorBatches. Stands where a torch DataLoader is
    expected, as trainload.torch.ImageLoader does.
    """

    def __init__(
        self,
        dataset: ClipDataset,
        *,
        batch_op: Callable[[TensorBatch], Any] | None = None,
        **options: Unpack[HyperframeOptions],
    ) -> None:
        def convert(batch: ClipBatch) -> Any:
            found = tensors(batch)
            return found if batch_op is None else batch_op(found)

        super().__init__(ArrayLoader(dataset, batch_op=convert, **options), {"batch_op": batch_op, **options})

    def __iter__(self) -> Iterator[Any]:
        """The next epoch, or the rest of one after `load_state_dict`. Its threads end with it."""
        return iter(self.loader)

    @property
    def cache_hit_rate(self) -> float:
        """The share of frames that the dataset's cache answered, 0 to 1."""
        return self.loader.cache_hit_rate
