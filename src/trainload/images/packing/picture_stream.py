"""The samples of a table in any order asked for, from the workers; refused pictures are noted, or end the pack."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainload.errors import SampleError
from trainload.images.packing.journal import Refusal
from trainload.images.packing.packed_picture import PackedPicture
from trainload.images.packing.sources import PictureTable
from trainload.images.packing.workers import Workers

MOST_UNREADABLE = 32  # in a row: single files may be gone, but not a source


class PictureStream:
    """Raises SampleError at a refused picture unless on_error is "skip". tick: called for each picture."""

    def __init__(
        self, table: PictureTable, workers: Workers, on_error: Literal["raise", "skip"], tick: Callable[[], None]
    ) -> None:
        self._table = table
        self._workers = workers
        self._on_error = on_error
        self._tick = tick
        self._refusals: list[Refusal] = []
        self._unreadable = 0  # in a row

    def packed(self, order: NDArray[np.int64]) -> Generator[PackedPicture, None, None]:
        """The samples of these pictures, in this order, the refused ones among them. One at a time is in use."""
        numbers = order.tolist()
        for number, picture in zip(numbers, self._workers.packed(map(self._table.locator, numbers))):
            if picture.is_refused:
                self._refuse(number, picture)
            else:
                self._unreadable = 0
            self._tick()
            yield picture._replace(number=number)

    def note(self, refusals: Iterable[Refusal]) -> None:
        """Count these, which another process found, as refused now."""
        self._refusals += refusals

    def take_refusals(self) -> list[Refusal]:
        """What was refused since this was asked last."""
        taken, self._refusals = self._refusals, []
        return taken

    def _refuse(self, number: int, picture: PackedPicture) -> None:
        place: dict[str, Any] = {"sample": number, "source": self._table.name(number), "path": self._table.files.path}
        if self._on_error == "raise":
            raise picture.error or SampleError(picture.reason, **place)
        self._unreadable = self._unreadable + 1 if picture.error else 0
        if self._unreadable == MOST_UNREADABLE:
            reason = f"{MOST_UNREADABLE} pictures in a row cannot be read: is the source still there? The last"
            raise SampleError(f"{reason} {picture.reason}", **place) from picture.error
        self._refusals.append((number, picture.kinds, picture.reason))
