"""Windows of a recording that is still being written, as they become whole.

Reads the window records, never the index, so it works before there is one. A window is given once its record agrees
with its CRC-32 and all bytes of its frames are in the file. One Follower serves one loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.memory.aligned import aligned_buffer
from trainload.recordings.format import rules
from trainload.recordings.format.hyperframe import HEADER_BYTES, HyperframeHeader, index_order
from trainload.recordings.format.records import Hole, WindowRecord, walk_records
from trainload.recordings.format.sections import TAG_STREAMS
from trainload.recordings.format.streams import StreamInfo, streams_from_bytes
from trainload.recordings.reading.frame_reads import StoredBytes
from trainload.recordings.reading.window import Window


class Follower:
    """Iterates over the finished windows of `path`, or of `path`.tmp while the recorder still writes it.

    streams: by name, as far as the recording has declared them. holes: damaged stretches that were stepped over.
    poll: how often to look. timeout: raise TimeoutError after so long without a new window; None waits for ever.
    Iteration ends with the recording. Raises FormatError for a file that is no recording or carries no window records,
    and where the recorder gave up and removed it.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, poll: str | int = "50ms", timeout: str | int | None = None
    ) -> None:
        self.path = os.fspath(path)
        self.streams: dict[str, StreamInfo] = {}
        self.holes: list[Hole] = []
        self._poll_s = duration_ns(poll, what="poll") / 1e9
        self._timeout_s = None if timeout is None else duration_ns(timeout, what="timeout") / 1e9
        self._infos: dict[int, StreamInfo] = {}
        self._at = HEADER_BYTES
        self._ended = False
        self._file = _GrowingFile.open(Path(path))
        try:
            head = self._file.read_bytes(0, min(HEADER_BYTES, self._file.size))
            self._header = HyperframeHeader.from_bytes(
                head, file_size=self._file.size, path=self.path, unfinished_allowed=True
            )
        except BaseException:
            self.close()
            raise
        if self._header.plain:
            self.close()
            raise rules.FOLLOW_RECORDS.broken(
                field="profile_version",
                offset=96,
                found=0,
                expected=1,
                path=self.path,
            )

    def __iter__(self) -> Iterator[Window]:
        waited_since = time.monotonic()
        while not self._ended:
            gone = not self._file.has_name  # looked at first: what was written before is still given
            for window in self.ready():
                yield window
                waited_since = time.monotonic()
            if self._ended:
                return
            if gone:
                raise rules.FOLLOW_GONE.broken(
                    field="file",
                    offset=None,
                    found="no file",
                    expected="a file that grows",
                    path=self.path,
                )
            if self._timeout_s is not None and time.monotonic() - waited_since > self._timeout_s:
                raise TimeoutError(f"no new window in {self._timeout_s:g} s: {self.path}")
            time.sleep(self._poll_s)

    def ready(self) -> list[Window]:
        """The windows that became whole since the last look; does not wait."""
        size, found = self._file.size, []
        walk = walk_records(self._file.read_bytes, size, file_id=self._header.file_id, start=self._at, path=self.path)
        for step in walk:
            if step.end > size or (isinstance(step, Hole) and step.end == size):
                break  # still being written
            self._at = step.end
            if isinstance(step, Hole):
                self.holes.append(step)
            elif step.last:
                self._ended = True
            else:
                found.append(self._window(step))
        return found

    def _window(self, record: WindowRecord) -> Window:
        for tag, body in record.sections:
            if tag == TAG_STREAMS:
                self._infos = {info.id: info for info in streams_from_bytes(body, path=self.path)}
                self.streams = {info.name: info for info in self._infos.values()}
        entries = record.entries[index_order(record.entries)]
        by_name = {}
        for stream_id in np.unique(entries["stream_id"]).tolist():
            info = self._infos.get(stream_id) or StreamInfo(stream_id, str(stream_id))
            self.streams.setdefault(info.name, info)
            by_name[info.name] = entries[entries["stream_id"] == stream_id]
        data = StoredBytes(self._file, [(record.offset, record.end)])
        head = record.head
        return Window(head.window_number, head.start_ns, head.end_ns, self._file, dict(self.streams), by_name, data)

    def close(self) -> None:
        """Let go of the file; windows that were given stay whole. Closing twice is fine."""
        self._ended = True
        self._file.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(slots=True)
class _GrowingFile:
    """An open file whose end moves; it outlives the rename from .tmp to its name."""

    path: str
    fd: int
    checks_frames: bool = True
    unpacks_frames: bool = True

    @staticmethod
    def open(path: Path) -> _GrowingFile:
        unfinished = path.with_name(path.name + ".tmp")
        try:
            fd = os.open(unfinished, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return _GrowingFile(os.fspath(path), fd)

    @property
    def size(self) -> int:
        if self.fd < 0:
            raise UsageError(f"the follower was closed: {self.path}")
        return os.fstat(self.fd).st_size

    @property
    def has_name(self) -> bool:
        return os.fstat(self.fd).st_nlink > 0

    def read(self, offset: int, size: int) -> memoryview:
        buffer = aligned_buffer(size)
        done = 0
        while done < size:
            count = os.preadv(self.fd, [buffer[done:]], offset + done)
            if count == 0:
                raise rules.FRAME_END.broken(
                    field="byte_offset",
                    offset=offset,
                    found=f"the end of the file at {offset + done:,}",
                    expected=f"{size:,} bytes",
                    path=self.path,
                )
            done += count
        return buffer

    def read_bytes(self, offset: int, size: int) -> bytes:
        return bytes(self.read(offset, size))

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
