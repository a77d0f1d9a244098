"""Torch tensors: loaders and map-style datasets of pictures and of recordings. The only importer of torch."""

from __future__ import annotations

from trainload.torch.dataset import ImageDataset
from trainload.torch.loader import ImageLoader
from trainload.torch.recordings import (
    AlignedDataset,
    HyperframeLoader,
    SequenceDataset,
    TensorBatch,
    WindowDataset,
    collate,
    collate_aligned,
)

__all__ = [
    "AlignedDataset",
    "HyperframeLoader",
    "ImageDataset",
    "ImageLoader",
    "SequenceDataset",
    "TensorBatch",
    "WindowDataset",
    "collate",
    "collate_aligned",
]
