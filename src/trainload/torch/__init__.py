"""Torch tensors: an ImageLoader for training loops and a map-style ImageDataset. The only importer of torch."""

from __future__ import annotations

from trainload.torch.dataset import ImageDataset
from trainload.torch.loader import ImageLoader

__all__ = ["ImageDataset", "ImageLoader"]
