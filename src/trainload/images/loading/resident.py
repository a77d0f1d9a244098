"""What loaders over the same samples share: the arena that holds all of them for good, and entry points into them.

Two loaders that fill one arena at a time write the same bytes to the same place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from weakref import WeakSet, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from trainload._core import EntryPointStore
from trainload.images.loading.fill import Fill, resident_fill
from trainload.images.loading.picture_sets import Places


class _Turn:
    """One lock for all of this; nothing is read or decoded under it."""

    lock = threading.Lock()

    @classmethod
    def renew(cls) -> None:
        cls.lock = threading.Lock()


os.register_at_fork(after_in_child=_Turn.renew)  # a thread that is not there may hold it


class Resident:
    """Some samples of a set in memory, for all loaders that joined. It goes with the last of them.

    entry_points: into these samples; None where there are none. entry_point_bytes: the most that they take.
    """

    def __init__(self, places: Places, ids: NDArray[np.int64], entry_point_bytes: int) -> None:
        self._places, self._ids = places, ids
        self._fill: Fill | None = None
        self._users: WeakSet[object] = WeakSet()
        self.entry_point_bytes = entry_point_bytes
        self.entry_points = EntryPointStore(entry_point_bytes) if entry_point_bytes else None

    def join(self, user: object) -> None:
        """`user`, a loader, uses this memory."""
        with _Turn.lock:
            self._users.add(user)

    def leave(self, user: object) -> None:
        """`user` uses it no more."""
        with _Turn.lock:
            self._users.discard(user)

    @property
    def is_shared(self) -> bool:
        """True where several loaders use it."""
        return len(self._users) > 1

    @property
    def filled(self) -> Fill | None:
        """The arena, where there is one by now."""
        return self._fill

    def fill(self) -> Fill:
        """The arena, allocated on the first call; the bytes of samples come by the reads of whoever needs them."""
        with _Turn.lock:
            if self._fill is None:
                self._fill = resident_fill(self._places, self._ids)
            return self._fill


_residents: WeakValueDictionary[Hashable, Resident] = WeakValueDictionary()


def find_resident(key: Hashable, make: Callable[[], Resident]) -> Resident:
    """The memory that loaders of this process have under `key`, else what `make` makes; forgotten with its last user.

    key: what the bytes depend on, and how they were checked.
    """
    with _Turn.lock:
        found = _residents.get(key)
        if found is None:
            found = _residents[key] = make()
        return found
