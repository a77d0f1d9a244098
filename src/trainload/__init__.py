"""trainload: training data packed once, fed to training at the speed of the machine.

Public names load when they are first used: `import trainload` brings numpy and the core, nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy  # noqa: F401

from trainload import _core  # noqa: F401
from trainload.errors import (
    ChecksumError,
    FormatError,
    LimitError,
    SampleError,
    TrainloadError,
    TruncatedError,
    UsageError,
)

if TYPE_CHECKING:  # the same names for editors and type checkers; a test holds both lists equal
    from trainload.images.extract import extract
    from trainload.images.loading.buffers import BufferPair
    from trainload.images.loading.image_loader import ImageLoader
    from trainload.images.loading.options import Tuning
    from trainload.images.ops.mixing import CutMix, MixUp
    from trainload.images.ops.operations import (
        AutoAugment,
        CenterCrop,
        ColorJitter,
        GaussianBlur,
        Normalize,
        RandAugment,
        RandomCrop,
        RandomErasing,
        RandomGrayscale,
        RandomHorizontalFlip,
        RandomResizedCrop,
        RandomRotation,
        RandomVerticalFlip,
        Resize,
    )
    from trainload.images.ops.protocols import BatchContext, BatchOperation, Operation, PictureOperation
    from trainload.images.packing.arrays import pack_arrays
    from trainload.images.packing.images import pack_images
    from trainload.images.packing.summary import PackSummary
    from trainload.images.reading.arrays import ArrayReader
    from trainload.images.reading.dts import DtsReader
    from trainload.images.reading.folder import FolderReader
    from trainload.images.reading.image_set import ImageSet
    from trainload.images.reading.open import open_images
    from trainload.images.reading.sample import Sample
    from trainload.memory.plan import MemoryPlan
    from trainload.open_any import open
    from trainload.recordings.aligning.match import Interpolate, Interval, Nearest, Previous
    from trainload.recordings.aligning.pairs import Pair, Pairs, align
    from trainload.recordings.aligning.report import Report
    from trainload.recordings.aligning.streams import ArrayStreams
    from trainload.recordings.exporters.frame_files import extract_frames
    from trainload.recordings.exporters.mcap import export_mcap
    from trainload.recordings.exporters.merge import merge_recordings
    from trainload.recordings.exporters.slice import slice_recording
    from trainload.recordings.importers.import_any import import_recording
    from trainload.recordings.reading.decoders import register_decoder
    from trainload.recordings.reading.follow import Follower
    from trainload.recordings.reading.frame import Frame
    from trainload.recordings.reading.hyperframe import HyperframeReader
    from trainload.recordings.reading.open import open_recording
    from trainload.recordings.reading.window import Window
    from trainload.recordings.recovering.recover import recover
    from trainload.recordings.samples.aligned import AlignedDataset
    from trainload.recordings.samples.clip import Clip
    from trainload.recordings.samples.collate import ClipBatch, collate
    from trainload.recordings.samples.hyperframe_loader import HyperframeLoader
    from trainload.recordings.samples.sequences import SequenceDataset
    from trainload.recordings.samples.windows import WindowDataset
    from trainload.recordings.writing.recorder import Recorder
    from trainload.recordings.writing.writer import HyperframeWriter
    from trainload.running.protocol import Loader
    from trainload.verify_any import verify

__version__ = "0.1.0"

# Where each lazily loaded public name lives.
_HOMES: dict[str, str] = {
    "AlignedDataset": "trainload.recordings.samples.aligned",
    "ArrayReader": "trainload.images.reading.arrays",
    "ArrayStreams": "trainload.recordings.aligning.streams",
    "AutoAugment": "trainload.images.ops.operations",
    "BatchContext": "trainload.images.ops.protocols",
    "BatchOperation": "trainload.images.ops.protocols",
    "BufferPair": "trainload.images.loading.buffers",
    "CenterCrop": "trainload.images.ops.operations",
    "Clip": "trainload.recordings.samples.clip",
    "ClipBatch": "trainload.recordings.samples.collate",
    "ColorJitter": "trainload.images.ops.operations",
    "CutMix": "trainload.images.ops.mixing",
    "DtsReader": "trainload.images.reading.dts",
    "FolderReader": "trainload.images.reading.folder",
    "Follower": "trainload.recordings.reading.follow",
    "Frame": "trainload.recordings.reading.frame",
    "GaussianBlur": "trainload.images.ops.operations",
    "HyperframeLoader": "trainload.recordings.samples.hyperframe_loader",
    "HyperframeReader": "trainload.recordings.reading.hyperframe",
    "HyperframeWriter": "trainload.recordings.writing.writer",
    "ImageSet": "trainload.images.reading.image_set",
    "ImageLoader": "trainload.images.loading.image_loader",
    "Interpolate": "trainload.recordings.aligning.match",
    "Interval": "trainload.recordings.aligning.match",
    "Loader": "trainload.running.protocol",
    "MemoryPlan": "trainload.memory.plan",
    "MixUp": "trainload.images.ops.mixing",
    "Nearest": "trainload.recordings.aligning.match",
    "Normalize": "trainload.images.ops.operations",
    "Operation": "trainload.images.ops.protocols",
    "PackSummary": "trainload.images.packing.summary",
    "Pair": "trainload.recordings.aligning.pairs",
    "Pairs": "trainload.recordings.aligning.pairs",
    "PictureOperation": "trainload.images.ops.protocols",
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
    "Report": "trainload.recordings.aligning.report",
    "Resize": "trainload.images.ops.operations",
    "Sample": "trainload.images.reading.sample",
    "SequenceDataset": "trainload.recordings.samples.sequences",
    "Tuning": "trainload.images.loading.options",
    "Window": "trainload.recordings.reading.window",
    "WindowDataset": "trainload.recordings.samples.windows",
    "align": "trainload.recordings.aligning.pairs",
    "collate": "trainload.recordings.samples.collate",
    "export_mcap": "trainload.recordings.exporters.mcap",
    "extract": "trainload.images.extract",
    "extract_frames": "trainload.recordings.exporters.frame_files",
    "import_recording": "trainload.recordings.importers.import_any",
    "merge_recordings": "trainload.recordings.exporters.merge",
    "open": "trainload.open_any",
    "open_images": "trainload.images.reading.open",
    "open_recording": "trainload.recordings.reading.open",
    "pack_arrays": "trainload.images.packing.arrays",
    "pack_images": "trainload.images.packing.images",
    "recover": "trainload.recordings.recovering.recover",
    "register_decoder": "trainload.recordings.reading.decoders",
    "slice_recording": "trainload.recordings.exporters.slice",
    "verify": "trainload.verify_any",
}

__all__ = [
    "AlignedDataset",
    "ArrayReader",
    "ArrayStreams",
    "AutoAugment",
    "BatchContext",
    "BatchOperation",
    "BufferPair",
    "CenterCrop",
    "ChecksumError",
    "Clip",
    "ClipBatch",
    "ColorJitter",
    "CutMix",
    "DtsReader",
    "FolderReader",
    "Follower",
    "FormatError",
    "Frame",
    "GaussianBlur",
    "HyperframeLoader",
    "HyperframeReader",
    "HyperframeWriter",
    "ImageLoader",
    "ImageSet",
    "Interpolate",
    "Interval",
    "LimitError",
    "Loader",
    "MemoryPlan",
    "MixUp",
    "Nearest",
    "Normalize",
    "Operation",
    "PackSummary",
    "Pair",
    "Pairs",
    "PictureOperation",
    "Previous",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Recorder",
    "Report",
    "Resize",
    "Sample",
    "SampleError",
    "SequenceDataset",
    "TrainloadError",
    "TruncatedError",
    "Tuning",
    "UsageError",
    "Window",
    "WindowDataset",
    "__version__",
    "align",
    "collate",
    "export_mcap",
    "extract",
    "extract_frames",
    "import_recording",
    "merge_recordings",
    "open",
    "open_images",
    "open_recording",
    "pack_arrays",
    "pack_images",
    "recover",
    "register_decoder",
    "slice_recording",
    "verify",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trainload' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
