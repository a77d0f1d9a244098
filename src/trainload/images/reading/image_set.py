"""What every set of pictures offers, whatever it lies in: the type that loaders and tools ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainload.images.reading.sample import Sample
from trainload.storage.containers import AnyPath


class ImageSet(Protocol):
    """An open set of pictures with labels: DtsReader, ArrayReader and FolderReader are such sets.

    labels: int32 [n]. class_names: in label order, () where the set carries none. path: the file or the folder.
    """

    @property
    def path(self) -> str: ...

    @property
    def labels(self) -> NDArray[np.int32]: ...

    @property
    def class_names(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Sample: ...

    def source(self, i: int) -> str:
        """Where sample `i` came from: a path, or "" where the set does not say."""
        ...

    def facts(self) -> dict[str, Any]:
        """What `trainload info` shows, as JSON values."""
        ...

    def close(self) -> None:
        """Let go of the files; closing twice is fine."""
        ...


class Opened(Protocol):
    """What `trainload.open` may give: an ImageSet, or a recording, which a loader of pictures refuses."""

    @property
    def path(self) -> str: ...

    def close(self) -> None: ...


GivenSet = ImageSet | Opened | AnyPath | Sequence[AnyPath]  # what a loader opens, or is given open
