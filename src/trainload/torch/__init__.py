"""Torch tensors: loaders and map-style datasets of pictures and of recordings. The only importer of torch."""

from __future__ import annotations

from trainload.torch.dataset import ImageDataset
from trainload.torch.hyperframe_loader import HyperframeLoader
from trainload.torch.image_loader import ImageLoader
from trainload.torch.recordings import (
    AlignedDataset,
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
