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
    "AlignedDataset": "trainload.recordings.samples.aligned",
    "ArrayStreams": "trainload.recordings.aligning.streams",
    "AutoAugment": "trainload.images.ops.operations",
    "BufferPair": "trainload.images.loading.buffers",
    "CenterCrop": "trainload.images.ops.operations",
    "ColorJitter": "trainload.images.ops.operations",
    "CutMix": "trainload.images.ops.mixing",
    "Follower": "trainload.recordings.reading.follow",
    "GaussianBlur": "trainload.images.ops.operations",
    "HyperframeLoader": "trainload.recordings.samples.loader",
    "HyperframeReader": "trainload.recordings.reading.hyperframe",
    "HyperframeWriter": "trainload.recordings.writing.writer",
    "ImageLoader": "trainload.images.loading.loader",
    "Interpolate": "trainload.recordings.aligning.match",
    "Interval": "trainload.recordings.aligning.match",
    "MixUp": "trainload.images.ops.mixing",
    "Nearest": "trainload.recordings.aligning.match",
    "Normalize": "trainload.images.ops.operations",
    "PackSummary": "trainload.images.packing.summary",
    "Previous": "trainload.recordings.aligning.match",
    "RandAugment": "trainload.images.ops.operations",
    "RandomCrop": "trainload.images.ops.operations",
    "RandomErasing": "trainload.images.ops.operations",
    "RandomGrayscale": "trainload.images.ops.operations",
    "RandomHorizontalFlip": "trainload.images.ops.operations",
    "RandomResizedCrop": "trainload.images.ops.operations",
    "RandomRotation": "trainload.images.ops.operations",
    "RandomVerticalFlip": "trainload.images.ops.operations",
    "Recorder": "trainload.recordings.writing.recorder",
    "Resize": "trainload.images.ops.operations",
    "SequenceDataset": "trainload.recordings.samples.sequences",
    "WindowDataset": "trainload.recordings.samples.windows",
    "align": "trainload.recordings.aligning.pairs",
    "collate": "trainload.recordings.samples.collate",
    "extract": "trainload.images.extract",
    "open": "trainload.open",
    "open_images": "trainload.images.reading.open",
    "open_recording": "trainload.recordings.reading.open",
    "pack_arrays": "trainload.images.packing.arrays",
    "pack_images": "trainload.images.packing.images",
    "recover": "trainload.recordings.recovering.recover",
    "register_decoder": "trainload.recordings.reading.decoders",
    "verify": "trainload.verify",
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
