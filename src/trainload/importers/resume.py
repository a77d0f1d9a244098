"""An interrupted import taken up again: windows that were committed are taken over as they were stored.

A source gives the same items in the same order each time, so the same windows close in the same order: the n-th is
the n-th record of the unfinished file, and has to hold the same frames. That file is kept under OUT.resume until the
new one is whole; a second interruption loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainload.errors import UsageError
from trainload.formats import hyperframe as hfrm
from trainload.formats.hyperframe_records import WindowRecord, walk_records
from trainload.formats.hyperframe_sections import TAG_STREAMS
from trainload.formats.hyperframe_streams import streams_from_bytes
from trainload.recording.part import StoredFrame
from trainload.recording.record_frames import frames_of_record
from trainload.storage.file import FileSource


class Leftover:
    """What an interrupted import of `out` left: its whole windows, up to the first damage."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = FileSource(path)
        head = self._file.read_at(0, hfrm.HEADER_BYTES)
        header = hfrm.HyperframeHeader.from_bytes(
            head, file_size=self._file.size, path=self._file.path, unfinished_allowed=True
        )
        self.window_ns = header.window_ns
        self._names: dict[int, str] = {}
        self._windows = self._read()

    @staticmethod
    def of(out: str | os.PathLike[str]) -> Leftover | None:
        """What is left beside `out`, None where nothing is. Of two leftovers the larger counts, the other goes."""
        path = Path(out)
        unfinished, kept = path.with_name(path.name + ".tmp"), path.with_name(path.name + ".resume")
        found = sorted((file for file in (kept, unfinished) if file.exists()), key=lambda file: file.stat().st_size)
        if not found or found[-1].stat().st_size < hfrm.HEADER_BYTES:
            for file in found:
                file.unlink()
            return None
        found[-1].replace(kept)
        unfinished.unlink(missing_ok=True)
        return Leftover(kept)

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
        self._file.close()
        self.path.unlink()

    def _read(self) -> Iterator[list[StoredFrame]]:
        for record in walk_records(self._file.read_at, self._file.size, path=self._file.path):
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
