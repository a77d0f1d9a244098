"""When a recording goes on in a new file, and what that file is called."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from trainload.errors import UsageError
from trainload.recordings.writing.part import Part
from trainload.storage.claim import being_written, lock, release
from trainload.storage.folders import make_folders


@dataclass(slots=True)
class PartFolder:
    """Parts part-00000.hfr, part-00001.hfr, ... in `folder`; a part ends with the window that reaches a limit."""

    folder: Path
    most_bytes: int | None = None
    most_ns: int | None = None
    _lock: int = field(default=-1, repr=False)

    def make_folder(self, *, overwrite: bool) -> None:
        """Make the folder, and lock it until `close`. Parts of an older recording, which would mix with ours, are
        refused, or removed.

        Raises UsageError, also where another process records into it.
        """
        make_folders(self.folder)
        self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not lock(self._lock):
                raise being_written(self.folder)
            self._clear(overwrite=overwrite)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others record into the folder. Closing twice is fine."""
        fd, self._lock = self._lock, -1
        if fd >= 0:
            release(fd)

    def _clear(self, *, overwrite: bool) -> None:
        for old in sorted(self.folder.glob("part-*.hfr*")):
            if not overwrite:
                raise UsageError(f"a recording is in the way; give another folder, or ask to overwrite it: {old}")
            old.unlink()

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:05d}.hfr"

    def is_due(self, part: Part) -> bool:
        """True where `part` has reached a limit, so that the next window belongs into a new one."""
        return part.windows > 0 and (
            (self.most_bytes is not None and part.size >= self.most_bytes)
            or (self.most_ns is not None and part.end_ns - part.start_ns >= self.most_ns)
        )
