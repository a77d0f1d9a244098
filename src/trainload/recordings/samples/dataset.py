"""What the data sets of recordings share: an index over what was kept, and the account of what was not."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from trainload.formats.printable import printable
from trainload.recordings.samples.clip import Clip
from trainload.recordings.samples.fallout import Fallout
from trainload.recordings.samples.store import FrameStore


class KeptSamples(ABC):
    """len(ds) samples, ds[i] is a Clip. recording_of: int32 [n], the recording of each. store: gives the frames."""

    noun: str  # what one sample is called
    streams: tuple[str, ...]
    store: FrameStore
    recording_of: NDArray[np.int32]
    _fallout: Fallout

    @abstractmethod
    def read(self, i: int, store: FrameStore) -> Clip:
        """Sample `i` through another store of the same recordings (a loader's, with chunks)."""

    def report(self) -> Fallout:
        """How many samples there could be, how many are kept, and what each stream costs; print it."""
        return self._fallout

    def __len__(self) -> int:
        return len(self.recording_of)

    def __getitem__(self, i: int) -> Clip:
        if not -len(self) <= i < len(self):
            raise IndexError(f"{self.noun} {i} of {len(self)}")
        return self.read(i % len(self), self.store)

    def _repr_html_(self) -> str:
        return self._fallout._repr_html_()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._fallout.headline}; {printable(', '.join(self.streams))})"
