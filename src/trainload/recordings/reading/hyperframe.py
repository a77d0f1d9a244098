"""A recording, read: any frame or window by one positional read, many by few.

Nothing is mapped, nothing is shared between threads but read-only tables. What a frame is, is frame.py; what a window
is, window.py; one file of a recording, file.py.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns, instant_ns
from trainload.recordings.format.hyperframe import (
    BYTE_OFFSET,
    BYTE_SIZE,
    FLAGS,
    MAX_TIMESTAMP_NS,
    Entry,
    HyperframeHeader,
)
from trainload.recordings.format.payload import takes_long
from trainload.recordings.format.sections import Drop
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.decoders import decode_forward
from trainload.recordings.reading.facts import hyperframe_facts
from trainload.recordings.reading.file import HyperframeFile
from trainload.recordings.reading.frame import Frame, open_frame
from trainload.recordings.reading.frame_reads import STEP_BYTES, STEPS_KEPT, StoredBytes, plan_stretches
from trainload.recordings.reading.recording_files import find_parts, join_streams
from trainload.recordings.reading.stream_frames import StreamFrames
from trainload.recordings.reading.summary import summary_line, summary_table
from trainload.recordings.reading.window import Window
from trainload.recordings.reading.window_sequence import WindowSequence
from trainload.running.helpers import Helpers
from trainload.storage.reused import StepMemory

AnyPath = str | os.PathLike[str]
Stream = str | int  # a stream's name, or its id
Time = int | str  # absolute nanoseconds, or "1.5s" after the recording's start
Options = tuple[str, int | None, int | None]  # verify, window in nanoseconds, helpers


class HyperframeReader:
    """An open recording: one HFRM file, or the parts that a recorder split it into (`trainload.open` makes it).

    `recording.read("camera/front", t)` is the first frame at or after t, `recording.windows[k]` all frames of window k.
    Streams are given by name or by id. Safe for many threads; pickles as path and options, and the copy opens its own
    file when it is first used. Times are whole nanoseconds; "1.5s" is so long after the recording's start; floats are
    refused.

    verify: "frames" (default) compares the CRC-32 of every payload that is read, "none" leaves that to
    `trainload verify`. window: the window length for files that have no window table, "100ms" or nanoseconds.
    helpers: threads that unpack ahead in an iteration whose frames take long to unpack; they end with the iteration.
    None means one for each core beside the caller's, at most 3; 0 means none.
    Raises FormatError for files that break docs/spec/hyperframe.md or were never finished.
    """

    def __init__(
        self,
        path: AnyPath | Sequence[AnyPath],
        *,
        verify: str = "frames",
        window: str | int | None = None,
        helpers: int | None = None,
    ) -> None:
        if verify not in ("frames", "none"):
            raise UsageError(f'verify is "frames" or "none", not {verify!r}')
        if helpers is not None and helpers < 0:
            raise UsageError(f"helpers is a number of threads, not {helpers}")
        self.paths = find_parts(path)
        self.path = self.paths[0]
        self._options = (verify, None if window is None else duration_ns(window, what="window"), helpers)
        self.streams  # noqa: B018  opens the files, so that errors come here

    @classmethod
    def _unopened(cls, paths: tuple[str, ...], options: Options) -> HyperframeReader:
        reader = cls.__new__(cls)
        reader.paths, reader.path, reader._options = paths, paths[0], options
        return reader

    def __reduce__(self) -> tuple[Any, ...]:
        return HyperframeReader._unopened, (self.paths, self._options)

    @cached_property
    def files(self) -> tuple[HyperframeFile, ...]:
        """The open files, in time order; opened when first asked for."""
        verify, window_ns, _ = self._options
        files: list[HyperframeFile] = []
        try:
            for path in self.paths:
                files.append(HyperframeFile(path, check_frames=verify == "frames", window_ns=window_ns))
            self.paths = tuple(file.path for file in files)  # URLs with the state that copies must read
            files.sort(key=lambda file: file.header.time_window_start_ns)
            self._infos = join_streams(files)
        except BaseException:
            for file in files:
                file.source.close()
            raise
        return tuple(files)

    @cached_property
    def streams(self) -> dict[str, StreamInfo]:
        """Every stream by name, in the order of their ids."""
        return {info.name: info for info in self.infos.values()}

    @cached_property
    def infos(self) -> dict[int, StreamInfo]:
        """Every stream by id."""
        self.files  # noqa: B018
        return self._infos

    @cached_property
    def windows(self) -> WindowSequence:
        """All windows: len, `[k]`, `[k0:k1]` and `(k0, k1)` by one read, iteration with reads of up to 4 MB."""
        return WindowSequence(self.files, self.infos, self._options[2])

    @cached_property
    def _opened(self) -> dict[Stream, StreamFrames]:
        return {}

    def _stream(self, stream: Stream) -> StreamFrames:
        """The columns of a stream; laid out when it is first asked for."""
        frames = self._opened.get(stream)
        if frames is None:
            info = self.streams.get(stream) if isinstance(stream, str) else self.infos.get(stream)
            if info is None:
                raise UsageError(f"no stream {stream!r}; the recording has {', '.join(self.streams)}: {self.path}")
            rows = [file.rows.get(info.id, slice(0, 0)) for file in self.files]
            frames = StreamFrames(info, [file.index[some] for file, some in zip(self.files, rows)])
            self._opened[info.id] = self._opened[info.name] = frames
        return frames

    # What there is.

    @property
    def header(self) -> HyperframeHeader:
        """The header of the first file."""
        return self.files[0].header

    @property
    def meta(self) -> dict[str, Any]:
        """The free JSON object that the recording carries, of the first file that has one."""
        return next((file.meta for file in self.files if file.meta), {})

    @property
    def drops(self) -> list[Drop]:
        """What the recorder could not write, per stream and reason."""
        return [drop for file in self.files for drop in file.drops]

    @property
    def start_ns(self) -> int:
        """The earliest timestamp of all streams, 0 where there is no frame."""
        return min(
            (int(file.index["timestamp_ns"][rows.start]) for file in self.files for rows in file.rows.values()),
            default=0,
        )

    @property
    def end_ns(self) -> int:
        """The latest timestamp of all streams, 0 where there is no frame."""
        return max(
            (int(file.index["timestamp_ns"][rows.stop - 1]) for file in self.files for rows in file.rows.values()),
            default=0,
        )

    def __len__(self) -> int:
        """The number of windows."""
        return len(self.windows)

    def __contains__(self, stream: object) -> bool:
        return stream in self.streams or stream in self.infos

    def __iter__(self) -> Iterator[Window]:
        return iter(self.windows)

    def count(self, stream: Stream) -> int:
        """How many frames a stream has."""
        return len(self._stream(stream))

    def timestamps(self, stream: Stream) -> NDArray[np.int64]:
        """Acquisition times, int64 [n], ascending. Position i is what `read_at_index(stream, i)` reads."""
        return self._stream(stream).timestamps

    def stream_index(self, stream: Stream) -> NDArray[np.uint32]:
        """The frames' own numbers, uint32 [n]; a gap means lost frames."""
        return cast("NDArray[np.uint32]", self._stream(stream).entries["stream_index"])

    def flags(self, stream: Stream) -> NDArray[np.uint16]:
        """The flags of the index entries, uint16 [n]."""
        return cast("NDArray[np.uint16]", self._stream(stream).entries["flags"])

    def sizes(self, stream: Stream) -> NDArray[np.uint32]:
        """Stored bytes of each frame, uint32 [n]."""
        return cast("NDArray[np.uint32]", self._stream(stream).entries["byte_size"])

    def durations(self, stream: Stream) -> NDArray[np.int64] | None:
        """How long each frame lasted (exposure, sweep), int64 [n], 0 where unknown; None where no frame says."""
        return self._beside(stream, [file.durations for file in self.files])

    def receive_times(self, stream: Stream) -> NDArray[np.int64] | None:
        """When the host received each frame, int64 [n], 0 where unknown; None where the recording does not say.

        For reports on latency: acquisition times are `timestamps`.
        """
        return self._beside(stream, [file.receive_times for file in self.files])

    def _beside(self, stream: Stream, columns: Sequence[NDArray[Any] | None]) -> NDArray[np.int64] | None:
        frames = self._stream(stream)
        if all(column is None for column in columns):
            return None
        parts = []
        for file, column in zip(self.files, columns):
            rows = file.rows.get(frames.info.id, slice(0, 0))
            parts.append(np.zeros(rows.stop - rows.start, np.int64) if column is None else column[rows])
        values = frames.in_order(parts).astype(np.int64)
        return values if values.any() else None

    def time_ns(self, time: Time) -> int:
        """An absolute time in ns: "1.5s" is so long after `start_ns`, whole numbers are ns already. UsageError."""
        return time if type(time) is int else instant_ns(time, start_ns=self.start_ns)

    # One frame.

    def read(self, stream: Stream, time_ns: Time, *, decode: bool = False) -> Frame | None:
        """The first frame at or after `time_ns`, None where there is none. One read.

        `decode=True` also sets `frame.decoded`: pictures are decoded, delta streams from their last key frame on.
        """
        # What after() and _read_one() do, without the calls: they would cost a tenth of what a checked pread takes.
        frames = self._opened.get(stream)
        if frames is None:
            frames = self._stream(stream)
        if type(time_ns) is not int:
            time_ns = self.time_ns(time_ns)
        position = bisect_left(frames.times, time_ns)
        if position == len(frames.times):
            return None
        if decode:
            return self._read(frames, position, True)
        entry = frames.entry(position)
        file = self.files[0 if frames.parts is None else frames.parts[position]]
        return open_frame(entry, file.read(entry[BYTE_OFFSET], entry[BYTE_SIZE]), frames.info, file)

    def read_before(self, stream: Stream, time_ns: Time, *, decode: bool = False) -> Frame | None:
        """The last frame at or before `time_ns`, None where there is none."""
        frames = self._stream(stream)
        return self._read(frames, frames.before(self.time_ns(time_ns)), decode)

    def read_nearest(self, stream: Stream, time_ns: Time, *, decode: bool = False) -> Frame | None:
        """The frame closest to `time_ns`, the earlier of two equally close; None for a stream without frames."""
        frames = self._stream(stream)
        return self._read(frames, frames.nearest(self.time_ns(time_ns)), decode)

    def read_at(self, stream: Stream, time_ns: Time, *, decode: bool = False) -> Frame | None:
        """The frame of exactly `time_ns`, None where there is none."""
        frames = self._stream(stream)
        return self._read(frames, frames.at(self.time_ns(time_ns)), decode)

    def read_at_index(self, stream: Stream, position: int, *, decode: bool = False) -> Frame:
        """The frame at a position in time order; -1 is the last. Raises IndexError."""
        frames = self._stream(stream)
        if not -len(frames) <= position < len(frames):
            raise IndexError(f"position {position} of {len(frames)} frames of {frames.info.name}")
        return cast("Frame", self._read(frames, position % len(frames), decode))

    def array(self, frame: Frame) -> NDArray[Any]:
        """`frame.array()`: the payload as the stream's type says."""
        return frame.array()

    def _read(self, frames: StreamFrames, position: int | None, decode: bool) -> Frame | None:
        if position is None:
            return None
        if decode:
            return decode_forward(frames, position, lambda at: self._read_one(frames, at), self.path)
        return self._read_one(frames, position)

    def _read_one(self, frames: StreamFrames, position: int) -> Frame:
        entry = frames.entry(position)
        file = self.files[0 if frames.parts is None else frames.parts[position]]
        return open_frame(entry, file.read(entry[BYTE_OFFSET], entry[BYTE_SIZE]), frames.info, file)

    # Many frames.

    def read_range(self, stream: Stream, start_ns: Time, end_ns: Time) -> list[Frame]:
        """All frames of one stream with start_ns <= time < end_ns, near ones by one read, all in memory at once."""
        return list(self.iter_range(stream, start_ns, end_ns))

    def iter_range(self, stream: Stream, start_ns: Time, end_ns: Time) -> Iterator[Frame]:
        """The same frames one by one, reading up to 4 MB at once."""
        return self.iter_positions(stream, *self._stream(stream).between(self.time_ns(start_ns), self.time_ns(end_ns)))

    def iter_positions(self, stream: Stream, first: int, last: int) -> Iterator[Frame]:
        """The frames at the positions [first, last) in time order, reading up to 4 MB at once.

        Where unpacking a frame takes long, helpers do it a few frames ahead.
        """
        frames = self._stream(stream)
        last = min(last, len(frames))
        if first >= last:
            return
        entry, info = frames.entry(first), frames.info
        stored = self._stored(frames, first, last)
        if takes_long(entry[FLAGS], entry[BYTE_SIZE]):
            with Helpers(self._options[2]) as helpers:
                yield from helpers.map(lambda item: open_frame(item[0], item[1], info, item[2]), stored)
        else:
            for entry, data, file in stored:
                yield open_frame(entry, data, info, file)

    def _stored(
        self, frames: StreamFrames, first: int, last: int
    ) -> Iterator[tuple[Entry, memoryview, HyperframeFile]]:
        """Index entry, stored bytes and file of the frames at [first, last), near ones by one read."""
        memory = StepMemory(STEPS_KEPT)
        while first < last:
            end = _step_end(frames, first, last)
            rows = frames.entries[first:end]
            entries: list[Entry] = rows.tolist()
            parts = [0] * len(entries) if frames.parts is None else frames.parts[first:end].tolist()
            runs = {
                part: StoredBytes(
                    self.files[part],
                    plan_stretches([rows if frames.parts is None else rows[frames.parts[first:end] == part]]),
                    partial(memory.read, self.files[part].source),
                )
                for part in set(parts)
            }
            for entry, part in zip(entries, parts):
                yield entry, runs[part].stored(entry), self.files[part]
            first = end

    def window(self, k: int, streams: Sequence[str] | None = None) -> Window:
        """Window `k` (-1 is the last): one read for its whole extent, then views. `streams` leaves out the others."""
        return self.windows.read(k, k + 1 or len(self.windows), streams)[0]

    def frames(
        self, streams: Sequence[str] | None = None, *, start_ns: Time | None = None, end_ns: Time | None = None
    ) -> Iterator[Frame]:
        """The frames of all (or the named) streams with start_ns <= time < end_ns in time order, reading ahead."""
        first = 0 if start_ns is None else self.time_ns(start_ns)
        last = MAX_TIMESTAMP_NS + 1 if end_ns is None else self.time_ns(end_ns)
        begin, end = None if start_ns is None else first, None if end_ns is None else last
        for window in self.windows.between(begin, end, streams, take=streams or self.streams):
            frames = window.frames()
            if window.start_ns < first or window.end_ns >= last:
                frames = [frame for frame in frames if first <= frame.timestamp_ns < last]
            yield from frames

    def facts(self, *, samples: bool | None = None) -> dict[str, Any]:
        """What the recording holds, measured, as JSON values: the content of `trainload info`.

        samples: read the payloads of packed streams, for rate, jitter and losses of their samples; None: where they are
        at most 10,000 and 64 MB, and read within a second.
        """
        return hyperframe_facts(self, samples=samples)

    # Its life.

    def close(self) -> None:
        """Close the files; closing twice is fine, reading afterwards is a UsageError."""
        for file in self.__dict__.get("files", ()):
            file.source.close()

    def __enter__(self) -> HyperframeReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        about = summary_line(self) if "files" in self.__dict__ else "not opened yet"  # a copy opens when it is used
        return f"HyperframeReader({self.path!r}: {about})"

    def _repr_html_(self) -> str:
        return summary_table(self)


def _step_end(frames: StreamFrames, first: int, last: int) -> int:
    """The end of a stretch of positions from `first` that one step of an iteration reads, at least one frame."""
    sizes = frames.entries["byte_size"][first : min(last, first + 4096)].cumsum(dtype=np.int64)
    return first + max(1, int(sizes.searchsorted(STEP_BYTES, "right")))
