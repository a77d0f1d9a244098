"""Recordings for torch: the datasets as torch Datasets, batches as tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trainload.errors import UsageError
from trainload.recordings.samples import aligned, sequences, windows
from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.collate import ClipBatch
from trainload.recordings.samples.collate import collate as collate_arrays

_TEXT = "SUV"
Fields = dict[str, torch.Tensor]  # records with text in them: the numbers by their names
Values = torch.Tensor | Fields | list[list[torch.Tensor | Fields | None]]


@dataclass(frozen=True, slots=True)
class TensorBatch:
    """A ClipBatch (recordings/samples/collate.py) as tensors, field by field; `pin_memory()` and `to(device)` as usual.

    Records that have text beside their numbers are a dict of tensors by field, without the text.
    """

    values: dict[str, Values]
    masks: dict[str, torch.Tensor]
    lengths: dict[str, torch.Tensor]
    times: dict[str, torch.Tensor]
    residuals: dict[str, torch.Tensor]
    ids: torch.Tensor
    recordings: torch.Tensor
    start_ns: torch.Tensor
    mixed_clocks: torch.Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, *args: Any, **kwargs: Any) -> TensorBatch:
        """The batch with every tensor moved, as `Tensor.to`."""
        return _map_tensors(self, lambda tensor: tensor.to(*args, **kwargs))

    def pin_memory(self) -> TensorBatch:
        """The batch in pinned memory; DataLoader(pin_memory=True) calls this."""
        return _map_tensors(self, torch.Tensor.pin_memory)


class WindowDataset(windows.WindowDataset, torch.utils.data.Dataset[Clip]):
    """trainload.WindowDataset as a torch Dataset: DataLoader(ds, collate_fn=collate)."""


class SequenceDataset(sequences.SequenceDataset, torch.utils.data.Dataset[Clip]):
    """trainload.SequenceDataset as a torch Dataset: DataLoader(ds, collate_fn=collate)."""


class AlignedDataset(aligned.AlignedDataset, torch.utils.data.Dataset[Clip]):
    """trainload.AlignedDataset as a torch Dataset: DataLoader(ds, collate_fn=collate_aligned)."""


def collate(clips: Sequence[Clip]) -> TensorBatch:
    """For DataLoader(collate_fn=...): clips of windows or sequences as one TensorBatch, (B, T, ...) per stream."""
    return tensors(collate_arrays(clips))


def collate_aligned(clips: Sequence[Clip]) -> TensorBatch:
    """For DataLoader(collate_fn=...): aligned clips as one TensorBatch, (B, ...) per stream."""
    return tensors(collate_arrays(clips, squeeze=True))


def tensors(batch: ClipBatch) -> TensorBatch:
    """The batch as tensors that share its memory where they can. Number types that torch lacks are widened.

    Raises UsageError for a stream without a number in it, which no tensor holds.
    """
    for name, values in batch.values.items():
        _check_numbers(name, values)
    return _map_tensors(batch, _tensor)


def _check_numbers(name: str, values: Any) -> None:
    arrays = [values] if isinstance(values, np.ndarray) else [one for row in values for one in row if one is not None]
    for dtype in {array.dtype for array in arrays}:
        text = [field for field in dtype.names or () if dtype[field].base.kind in _TEXT]
        if dtype.kind in _TEXT and len(text) == len(dtype.names or ()):
            raise UsageError(
                f"stream {name!r} holds {dtype}, which no tensor holds: leave it out with streams=[...], or turn "
                "it into numbers in the batch_op of trainload.HyperframeLoader, which gives numpy arrays"
            )
        if text:
            warnings.warn(
                f"stream {name!r}: {', '.join(text)} are text and left out of its tensors; trainload.HyperframeLoader "
                "has them as numpy arrays",
                UserWarning,
                stacklevel=3,
            )


def _map_tensors(batch: Any, change: Any) -> TensorBatch:
    def inside(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: inside(one) for key, one in value.items()}
        if isinstance(value, list):
            return [inside(one) for one in value]
        return None if value is None else change(value)

    return TensorBatch(*(inside(getattr(batch, name)) for name in TensorBatch.__dataclass_fields__))


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor | Fields:
    if array.dtype.names is not None:
        numbers = [field for field in array.dtype.names if array.dtype[field].base.kind not in _TEXT]
        return {field: torch.from_numpy(array[field].astype(_native(array.dtype[field].base))) for field in numbers}
    if not array.flags.writeable or not array.dtype.isnative:
        array = array.astype(_native(array.dtype))
    return torch.from_numpy(array)


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("=")
