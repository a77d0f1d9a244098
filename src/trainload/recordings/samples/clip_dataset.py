"""What a loader asks of a dataset of clips."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.store import FrameStore


class ClipDataset(Protocol):
    """What the loader asks of a dataset: WindowDataset, SequenceDataset, AlignedDataset."""

    store: FrameStore
    squeeze: bool
    recording_of: NDArray[np.int32]

    def __len__(self) -> int: ...
    def read(self, i: int, store: FrameStore) -> Clip: ...
    def chunks(self) -> list[NDArray[np.int64]]: ...
