"""An interrupted import taken up again: windows that were committed are taken over as they were stored.

A source gives the same items in the same order each time, so the same windows close in the same order: the n-th is
the n-th record of the unfinished file, and has to hold the same frames. That file is kept under OUT.resume until the
new one is whole; a second interruption loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainload.errors import FormatError, UsageError
from trainload.recordings.format import sections
from trainload.recordings.format.records import Hole, WindowRecord, walk_records
from trainload.recordings.format.sections import TAG_META, TAG_STREAMS
from trainload.recordings.format.streams import streams_from_bytes
from trainload.recordings.reading.tables import read_header
from trainload.recordings.recovering.record_frames import frames_of_record
from trainload.recordings.writing.part import StoredFrame
from trainload.storage.atomic import tmp_name
from trainload.storage.claim import claim_left, release
from trainload.storage.file import FileSource


class Leftover:
    """What an interrupted import left at `path`: its whole windows, up to the first damage. Locked until `close`.

    Raises UsageError where it is not what an import from `kind` left, or where another process writes it.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self._lock = claim_left(path)
        try:
            self._file = FileSource(path)
            self.is_empty = not self._file.size  # or it has a header and no window: nothing that could be lost
            self.window_ns = 0
            if not self.is_empty:
                self.window_ns, self.is_empty = self._look(kind)
        except BaseException:
            self.close()
            raise
        self._names: dict[int, str] = {}
        self._windows = self._read()

    @staticmethod
    def of(out: str | os.PathLike[str], kind: str) -> Leftover | None:
        """What an import from `kind` left beside `out`, None where nothing is. It is kept as `<out>.resume`.

        Of two leftovers of one import the larger counts, and the other goes. Nothing is renamed or removed before it is
        known whose it is.
        """
        path = Path(out)
        unfinished, kept = tmp_name(path), path.with_name(path.name + ".resume")
        found: list[Leftover] = []
        try:
            for file in (kept, unfinished):
                if os.path.lexists(file):
                    found.append(Leftover(file, kind))
            found.sort(key=lambda each: (not each.is_empty, each.size))
            if len(found) == 2 and not found[0].is_empty and not found[0].begins(found[1]):
                raise UsageError(f"two unfinished imports that differ are in the way; remove one: {kept}, {unfinished}")
            while found and (len(found) == 2 or found[0].is_empty):
                found.pop(0).remove()
            if found:
                found[0].keep_as(kept)
        except BaseException:
            for each in found:
                each.close()
            raise
        return found[0] if found else None

    @property
    def size(self) -> int:
        return self._file.size

    def begins(self, other: Leftover) -> bool:
        """True where every window of this one is also in the other, at the same place."""
        pairs = zip(self._records(), other._records())
        return all(
            isinstance(one, WindowRecord)
            and isinstance(two, WindowRecord)
            and one.entries.tobytes() == two.entries.tobytes()
            for one, two in pairs
        )

    def keep_as(self, path: Path) -> None:
        """Give the file another name."""
        if path != self.path:
            self.path.replace(path)
            self.path = path

    def stored(self, frames: Sequence[StoredFrame]) -> list[StoredFrame] | None:
        """The frames of the next window as they were stored; None where that window was not committed.

        frames: what the source gives for it. Raises UsageError where these are others.
        """
        found = next(self._windows, None)
        if found is not None and [_identity(frame) for frame in found] != [_identity(frame) for frame in frames]:
            raise self._of_another_source(f"from time {frames[0].timestamp_ns:,} ns on its frames are others")
        return found

    def name(self, stream_id: int, name: str) -> None:
        """Note the name of a stream. Raises UsageError where it is known by another."""
        known = self._names.setdefault(stream_id, name)
        if known != name:
            raise self._of_another_source(f"stream {stream_id} is {known!r} in one and {name!r} in the other")

    def remove(self) -> None:
        """Delete the unfinished file."""
        self.path.unlink()
        self.close()

    def close(self) -> None:
        """Let others have the file. Closing twice is fine."""
        if hasattr(self, "_file"):
            self._file.close()
        fd, self._lock = self._lock, -1
        if fd >= 0:
            release(fd)

    def _look(self, kind: str) -> tuple[int, bool]:
        """The window length, and whether there is no window. Raises UsageError where this is not such an import's."""
        try:
            header = read_header(self._file, unfinished_allowed=True)
        except FormatError as error:
            raise self._not_ours("is no unfinished import") from error
        first = next(self._records(), None)
        if first is None:
            return header.window_ns, True
        if isinstance(first, Hole):
            raise self._not_ours("is damaged where it would say what it is")
        bodies = [body for tag, body in first.sections if tag == TAG_META]
        facts = sections.meta_from_bytes(bodies[0], path=self._file.path).get("import") if bodies else None
        if not isinstance(facts, dict):
            raise self._not_ours("is an unfinished recording, not an import")
        if facts.get("format") != kind:
            raise self._not_ours(f"is an unfinished import from {facts.get('format')!r}, not from {kind!r}")
        return header.window_ns, False

    def _not_ours(self, what: str) -> UsageError:
        return UsageError(f"{self.path} {what}; recover it (trainload recover {self.path} OUT) or remove it")

    def _records(self) -> Iterator[WindowRecord | Hole]:
        return walk_records(self._file.read_at, self._file.size, path=self._file.path)

    def _read(self) -> Iterator[list[StoredFrame]]:
        for record in self._records():
            if not isinstance(record, WindowRecord) or record.last:
                return
            frames, good = frames_of_record(self._file, record)
            if not good.all():
                return
            for tag, body in record.sections:
                for info in streams_from_bytes(body, path=self._file.path) if tag == TAG_STREAMS else ():
                    self.name(info.id, info.name)
            yield frames

    def _of_another_source(self, why: str) -> UsageError:
        return UsageError(f"{self.path} was made from another source: {why}")


def _identity(frame: StoredFrame) -> tuple[int, int, int]:
    return frame.stream_id, frame.timestamp_ns, frame.stream_index
