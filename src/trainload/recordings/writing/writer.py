"""HyperframeWriter: frames in, one finished HFRM file out. For files made from data at hand; live: recorder.py.

Frames go through the window cutter (windows.py), the compressor (compressor.py) and into the file (part.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns as parse_duration
from trainload.recordings.format.hyperframe import LATE
from trainload.recordings.format.sections import Drop
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.writing.compressor import Compressor, EncodedWindow
from trainload.recordings.writing.durable import Durable, durable_now
from trainload.recordings.writing.part import OpenFile, Part, StoredFrame, keep_tmp
from trainload.recordings.writing.part_folder import PartFolder
from trainload.recordings.writing.pending_frames import PendingFrame, pending_frame, stored_frames
from trainload.recordings.writing.streams import OpenStream, StreamOptions, StreamSet
from trainload.recordings.writing.window_cutter import CutWindow, WindowCutter, window_advice

if TYPE_CHECKING:
    from trainload.recordings.writing.pending_frames import Payload


Committed = Callable[[Sequence[StoredFrame]], list[StoredFrame] | None]


def none_committed(_: Sequence[StoredFrame]) -> None:
    """Where no run was interrupted."""


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What a finished file holds. bytes_in: payload before compression. late: late frames by stream, of all parts."""

    path: str
    frames: int
    windows: int
    bytes_in: int
    file_bytes: int
    late: dict[str, int]
    warnings: tuple[str, ...]


class HyperframeWriter:
    """Writes one recording to `path`; it has that name only after `finalize()`, which leaving the `with` block calls.

    window: target length of a window ("100ms" or ns); 1 to 2 periods of the slowest stream serve well. lateness: how
    far behind the newest timestamp a frame may come and still find its window open (default: one window); memory holds
    window + lateness of frames. threads: for compression. meta: a JSON object kept in the file. overwrite: replace a
    file, or the .tmp of an unfinished recording, that has the name. part_folder: go on in new files, `path` being
    the first. drops: gives what was lost so far before it came here; stored in the file. committed: gives the frames of
    a window as an interrupted run of the same frames stored them, or None. One thread at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        window: str | int = "100ms",
        lateness: str | int | None = None,
        threads: int | None = None,
        meta: dict[str, Any] | None = None,
        overwrite: bool = False,
        part_folder: PartFolder | None = None,
        drops: Callable[[], list[Drop]] = list,
        committed: Committed = none_committed,
        open_file: OpenFile = keep_tmp,
    ) -> None:
        window_ns = parse_duration(window, what="window")
        lateness_ns = window_ns if lateness is None else parse_duration(lateness, what="lateness", least=0)
        self._streams = StreamSet()
        self._cutter: WindowCutter[PendingFrame] = WindowCutter(window_ns, lateness_ns)
        self._compressor = Compressor(threads)
        self._part_folder = part_folder
        self._drops = drops
        self._committed = committed
        self._drops_before_part: dict[tuple[int, str], Drop] = {}
        self._bytes_in = 0
        self.parts: list[WriteSummary] = []  # the files finished so far
        self.durable = Durable()  # how far everything is on the disk, since the last sync
        self._open_file = open_file
        self._overwrite = overwrite
        self._meta = meta
        self._ended = False
        self.part = self._open(path)  # the file being written, or the last one that was

    @property
    def open_streams(self) -> list[OpenStream]:
        """The declared streams with their counters."""
        return list(self._streams)

    @property
    def streams(self) -> dict[str, StreamInfo]:
        """The declared streams by name."""
        return {info.name: info for info in self._streams.infos}

    def add_stream(self, name: str, **options: Unpack[StreamOptions]) -> int:
        """Declare a stream; returns its id, for `append`. Streams may be added at any time.

        Options (StreamOptions): kind, encoding, dtype, shape, rate_hz, clock, frame_duration, codec, shuffle, packed,
        calibration, fields. Raises UsageError.
        """
        self._check_open()
        stream = self._streams.add(name, **options)
        self.part.add_stream(stream.info)
        return stream.info.id

    def swap_names(self, one: int, other: int) -> None:
        """Exchange the names of two streams, in the table at the end of the file; records keep what they said."""
        self._check_open()
        self._streams.swap_names(one, other)
        self.part.set_streams(self._streams.infos)

    def append(
        self,
        stream: int | str,
        timestamp_ns: int,
        payload: Payload,
        *,
        key_frame: bool = True,
        receive_ns: int = 0,
        duration_ns: int = 0,
        stream_index: int | None = None,
    ) -> None:
        """Add one frame, in any order across streams. `payload` is copied unless it is bytes.

        timestamp_ns: acquisition time. receive_ns: when it was received, kept apart (0: unknown). duration_ns: of this
        frame, where it differs from its stream's (0). stream_index: the sensor's own frame number; left out, it counts
        on. Gaps in it mean lost frames. A packed stream's index counts its payloads, whatever is given here.
        Raises UsageError, with nothing written, for an unknown stream, a number that does not fit, a payload over
        4 GiB - 1, or a packed sample of another size; OSError, saying what is safe, where the system fails.
        """
        self._check_open()
        self.take(self.prepare(stream, timestamp_ns, payload, key_frame, receive_ns, duration_ns, stream_index))

    def prepare(
        self,
        stream: int | str,
        timestamp_ns: int,
        payload: Payload,
        key_frame: bool,
        receive_ns: int,
        duration_ns: int,
        stream_index: int | None,
    ) -> PendingFrame:
        """The first half of `append`: check everything, copy the payload, count the stream's index on."""
        found = self._streams.find(stream)
        return pending_frame(found, timestamp_ns, payload, key_frame, receive_ns, duration_ns, stream_index)

    def take(self, frame: PendingFrame) -> None:
        """The second half of `append`: into its window; windows that this closes are written."""
        stream = frame.stream
        stream.frames += 1
        stream.taken_index = frame.stream_index
        stream.bytes += len(frame.payload)
        if frame.timestamp_ns <= self._cutter.taken_to_ns:
            stream.late += 1
            frame = frame._replace(flags=frame.flags | LATE)
        if self._cutter.push(frame.timestamp_ns, frame):
            self._close(self._cutter.cut())

    def flush(self) -> None:
        """Close every open window and write it. What comes later for these windows is stored as late."""
        self._close(self._cutter.flush())
        self.write_closed()

    def write_closed(self) -> None:
        """Wait for the compressor and write every window that is closed by now."""
        for window in self._compressor.drain():
            self._write(window)

    def sync(self) -> int:
        """Write every closed window and ask the disk to hold it; the number of windows in the file that are safe.

        `durable` says the same in times and frame numbers. Raises OSError, after which the file cannot be gone on with.
        """
        self.part.set_drops(self._since_part(self._drops()))
        self.write_closed()
        windows = self.part.sync()
        self._note_durable()
        return windows

    def finalize(self) -> WriteSummary:
        """Write all that is open, finish the file and give it its name. Raises OSError, saying what is safe."""
        self._check_open()
        try:
            self.flush()
            summary = self._finish_part()
            self._note_durable()
            return summary
        finally:
            self._compressor.close()

    def finish_now(self) -> WriteSummary:
        """Finish the file with the windows that are written; what is not is lost. For a disk that is full."""
        self._compressor.close()
        return self._finish_part()

    def abort(self) -> None:
        """Give up: remove the unfinished file. After the end this does nothing."""
        self._compressor.close()
        if not self._ended:
            self._ended = True
            self.part.abort()

    def __enter__(self) -> HyperframeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self.part.failed:
            self.abort()
        elif error is None and not self._ended:
            try:
                self.finalize()
            finally:
                self.detach()
        else:
            self.leave()

    def detach(self) -> None:
        """Stop without finishing: the .tmp file stays as it is, for `trainload recover`."""
        self._compressor.close()
        if not self._ended:
            self._ended = True
            self.part.detach()

    def leave(self) -> None:
        """After an error: stop, and keep the .tmp file, but for an empty one that nothing went wrong with."""
        if self.part.windows or self.part.failed:
            self.detach()
        else:
            self.abort()

    def _open(self, path: str | os.PathLike[str]) -> Part:
        part = Part(
            path,
            self._cutter.window_ns,
            meta=self._meta,
            overwrite=self._overwrite,
            open_file=self._open_file,
            parts_before=len(self.parts),
        )
        part.set_streams(self._streams.infos)
        return part

    def _note_durable(self) -> None:
        windows = sum(part.windows for part in self.parts) + (0 if self._ended else self.part.synced_windows)
        self.durable = durable_now(self._streams, self._cutter.pending(), self._cutter.taken_to_ns, windows)

    def _check_open(self) -> None:
        if self._ended:
            raise UsageError("the recording is finished; open another one to write more")

    def _finish_part(self) -> WriteSummary:
        self._check_open()
        part = self.part
        drops = self._drops()
        part.set_drops(self._since_part(drops))
        self._drops_before_part = {(drop.stream_id, drop.reason): drop for drop in drops}
        self._ended = True
        windows = part.finalize()
        summary = WriteSummary(
            os.fspath(part.path),
            part.frames,
            windows,
            self._bytes_in,
            part.size,
            {stream.info.name: stream.late for stream in self._streams if stream.late},
            self._warnings(),
        )
        self._bytes_in = 0
        self.parts.append(summary)
        return summary

    def _warnings(self) -> tuple[str, ...]:
        rates = [info.rate_hz for info in self._streams.infos if info.rate_hz is not None]
        advice = window_advice(self._cutter.window_ns, rates)
        return (*self._streams.warnings, *([advice] if advice else []))

    def _since_part(self, drops: list[Drop]) -> list[Drop]:
        """What of `drops` was lost since the current part began."""
        found: list[Drop] = []
        for drop in drops:
            before = self._drops_before_part.get((drop.stream_id, drop.reason))
            frames, size = (before.frames, before.bytes) if before else (0, 0)
            if drop.frames > frames:
                found.append(Drop(drop.stream_id, drop.reason, drop.frames - frames, drop.bytes - size))
        return found

    def _close(self, windows: Iterable[CutWindow[PendingFrame]]) -> None:
        for window in windows:
            frames, encodings = stored_frames(window.items)
            stored = self._committed(frames)
            if stored is not None:
                frames, encodings = stored, [None] * len(stored)
            self._compressor.submit(window.start_ns, window.end_ns, frames, encodings)
        for ready in self._compressor.finished():
            self._write(ready)

    def _write(self, window: EncodedWindow) -> None:
        if self._part_folder is not None and self._part_folder.is_due(self.part):
            self._finish_part()
            self.part = self._open(self._part_folder.path(len(self.parts)))
            self._ended = False
        self.part.write_window(window.start_ns, window.end_ns, window.frames)
        self._bytes_in += window.size
