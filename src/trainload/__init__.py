"""trainload: training data packed once, fed to training at the speed of the machine.

Public names load when they are first used: `import trainload` brings numpy and the core, nothing else.
"""

from __future__ import annotations

from importlib import import_module

import numpy  # noqa: F401

from trainload import _core  # noqa: F401
from trainload.errors import FormatError, SampleError, TrainloadError, UsageError

__version__ = "0.1.0"

# Where each lazily loaded public name lives.
_HOMES: dict[str, str] = {
    "AlignedDataset": "trainload.datasets.aligned",
    "ArrayStreams": "trainload.aligning.streams",
    "AutoAugment": "trainload.imaging.ops",
    "BufferPair": "trainload.loading.buffers",
    "CenterCrop": "trainload.imaging.ops",
    "ColorJitter": "trainload.imaging.ops",
    "CutMix": "trainload.imaging.mixing",
    "Follower": "trainload.reading.follow",
    "GaussianBlur": "trainload.imaging.ops",
    "HyperframeLoader": "trainload.datasets.loader",
    "HyperframeReader": "trainload.reading.hyperframe",
    "HyperframeWriter": "trainload.recording.writer",
    "ImageLoader": "trainload.loading.loader",
    "Interpolate": "trainload.aligning.match",
    "Interval": "trainload.aligning.match",
    "MixUp": "trainload.imaging.mixing",
    "Nearest": "trainload.aligning.match",
    "Normalize": "trainload.imaging.ops",
    "PackSummary": "trainload.packing.summary",
    "Previous": "trainload.aligning.match",
    "RandAugment": "trainload.imaging.ops",
    "RandomCrop": "trainload.imaging.ops",
    "RandomErasing": "trainload.imaging.ops",
    "RandomGrayscale": "trainload.imaging.ops",
    "RandomHorizontalFlip": "trainload.imaging.ops",
    "RandomResizedCrop": "trainload.imaging.ops",
    "RandomRotation": "trainload.imaging.ops",
    "RandomVerticalFlip": "trainload.imaging.ops",
    "Recorder": "trainload.recording.recorder",
    "Resize": "trainload.imaging.ops",
    "SequenceDataset": "trainload.datasets.sequences",
    "WindowDataset": "trainload.datasets.windows",
    "align": "trainload.aligning.pairs",
    "collate": "trainload.datasets.collate",
    "extract": "trainload.exporters.folder",
    "open": "trainload.reading.open",
    "pack_arrays": "trainload.packing.arrays",
    "pack_images": "trainload.packing.images",
    "recover": "trainload.recording.recover",
    "register_decoder": "trainload.reading.decoders",
    "verify": "trainload.reading.verify",
}

__all__ = ["FormatError", "SampleError", "TrainloadError", "UsageError", "__version__"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trainload' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})
