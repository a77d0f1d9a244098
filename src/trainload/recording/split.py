"""When a recording goes on in a new file, and what that file is called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainload.errors import UsageError
from trainload.recording.part import Part


@dataclass(frozen=True, slots=True)
class Split:
    """Parts part-00000.hfr, part-00001.hfr, ... in `folder`; a part ends with the window that reaches a limit."""

    folder: Path
    most_bytes: int | None = None
    most_ns: int | None = None

    def make_folder(self, *, overwrite: bool) -> None:
        """Make the folder. Parts of an older recording, which would mix with ours, are refused, or removed."""
        self.folder.mkdir(parents=True, exist_ok=True)
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
