"""trainload: training data packed once, fed to training at the speed of the machine.

Both kinds       open, verify; copy_files: between disks and buckets, each a CopiedFile
Pictures         pack_images, pack_arrays, PackSummary: folders, tars, MNIST and CIFAR into one file
                 open_images: DtsReader, ArrayReader, FolderReader, whose items are a Sample; extract
                 ImageLoader: batches of any ImageSet; Tuning, BufferPair, MemoryPlan: its threads and memory
Operations       CenterCrop, RandomCrop, RandomResizedCrop, RandomScale, Resize, Pad
                 RandomHorizontalFlip, RandomVerticalFlip, RandomRotation, ColorJitter, RandomGrayscale
                 RandomAutocontrast, GaussianBlur, GaussianNoise, AutoAugment, RandAugment
                 Normalize, RandomErasing; per batch: CutMix, MixUp
                 Operation: PictureOperation, or BatchOperation, which gets a BatchContext
Recordings       Recorder, HyperframeWriter; recover: what a crash left
                 open_recording: HyperframeReader, which gives a Frame or a Window; register_decoder
                 Follower: while it is being written
                 import_recording, import_recordings; slice_recording, merge_recordings
                 export_mcap, export_rerun, extract_frames
Aligned in time  align: Pairs, each a Pair, and a Report; Nearest, Previous, Interval, Interpolate; ArrayStreams
Samples of them  WindowDataset, SequenceDataset, AlignedDataset, whose items are a Clip
                 HyperframeLoader: each batch a ClipBatch; collate. Loader: what all loaders have
Errors           TrainloadError: SampleError, UsageError, FormatError: TruncatedError, ChecksumError, LimitError;
                 of URLs RemoteError, DatasetChangedError, ForkSafetyError

Tensors are in trainload.torch, arrays of JAX in trainload.jax. `help(trainload.ImageLoader)` tells more of one name.

Public names load when they are first used: `import trainload` brings numpy and the core, nothing else. `__init__.pyi`
says where each of them lives; it is the only list of them.
"""

from __future__ import annotations

import re
from importlib import import_module

import numpy  # noqa: F401

from trainload import _core, errors  # noqa: F401

__version__ = "0.1.0"

with open(f"{__file__}i", encoding="utf-8") as stub:
    _HOMES = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub.read(), re.MULTILINE)}
del stub

__all__ = list(_HOMES)
__all__ += ["__version__"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'trainload' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
