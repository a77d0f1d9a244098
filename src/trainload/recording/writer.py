"""HyperframeWriter: frames in, one finished HFRM file out. For files made from data at hand; live: recorder.py.

Frames go through the window cutter (windows.py), the compressor (compressor.py) and into the file (part.py).
"""

from __future__ import annotations

import operator
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import DTypeLike

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns as parse_duration
from trainload.formats.hyperframe import KEY_FRAME, LATE, MAX_FRAME_BYTES, MAX_TIMESTAMP_NS, PACKED
from trainload.formats.hyperframe_sections import Drop
from trainload.formats.hyperframe_streams import StreamInfo
from trainload.recording.compressor import Compressor, EncodedWindow, Encoding
from trainload.recording.part import OpenFile, Part, StoredFrame, keep_tmp
from trainload.recording.streams import OpenStream, StreamSet
from trainload.recording.windows import CutWindow, WindowCutter

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAX_U32 = (1 << 32) - 1
_TIME = struct.Struct("<Q")


class _Pending(NamedTuple):
    """One frame (or one sample of a packed stream) that waits for its window to close."""

    stream: OpenStream
    timestamp_ns: int
    payload: bytes
    flags: int
    stream_index: int
    receive_ns: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What a finished file holds. bytes_in: payload as given; file_bytes: size of the file; late: frames by stream."""

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
    file, or the .tmp of an unfinished recording, that has the name. One thread at a time.
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
        open_file: OpenFile = keep_tmp,
    ) -> None:
        window_ns = parse_duration(window, what="window")
        lateness_ns = window_ns if lateness is None else 0 if lateness == 0 else parse_duration(lateness)
        self._streams = StreamSet()
        self._cutter: WindowCutter[_Pending] = WindowCutter(window_ns, lateness_ns)
        self._compressor = Compressor(threads)
        self._drops: list[Drop] = []
        self._open_file = open_file
        self._overwrite = overwrite
        self._meta = meta
        self._part: Part | None = self._open(path)

    @property
    def streams(self) -> dict[str, StreamInfo]:
        """The declared streams by name."""
        return {info.name: info for info in self._streams.infos}

    @property
    def part(self) -> Part:
        """The file being written. Raises UsageError after the end."""
        if self._part is None:
            raise UsageError("the recording is finished; open another one to write more")
        return self._part

    def add_stream(
        self,
        name: str,
        *,
        kind: str = "generic",
        encoding: str = "raw",
        dtype: DTypeLike | None = None,
        shape: tuple[int, ...] | None = None,
        rate_hz: float | None = None,
        clock: str = "hardware",
        frame_duration: str | int | None = None,
        codec: str = "none",
        shuffle: bool | int = False,
        packed: bool = False,
        calibration: Mapping[str, Any] | None = None,
    ) -> int:
        """Declare a stream; returns its id, for `append`. Streams may be added at any time.

        kind: camera, lidar, imu, radar, event, ... encoding: jpeg, raw, ... dtype, shape: the payload as an array (one
        element, a structured type for fields; shape with one -1). clock: "hardware" or "host", whatever stamped the
        frames. frame_duration: exposure or sweep. codec: none, lz4, lz4hc, zstd, with a level as "zstd:9"; left out,
        with a warning, on JPEG and video. shuffle: byte shuffle by element (True: by dtype). packed: frames are single
        samples of dtype; those of one window are stored as one array, each led by its timestamp. Raises UsageError.
        """
        part = self.part
        stream = self._streams.add(
            name, kind=kind, encoding=encoding, dtype=dtype, shape=shape, rate_hz=rate_hz, clock=clock,
            frame_duration=frame_duration, codec=codec, shuffle=shuffle, packed=packed, calibration=calibration,
        )  # fmt: skip
        part.set_streams(self._streams.infos)
        return stream.info.id

    def append(
        self,
        stream: int | str,
        timestamp_ns: int,
        payload: Buffer,
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
        found = self._streams.find(stream)
        data = payload if type(payload) is bytes else _copied(payload)
        number = found.next_index if stream_index is None else stream_index
        if not (
            type(timestamp_ns) is type(number) is type(receive_ns) is type(duration_ns) is int
            and 0 <= timestamp_ns <= MAX_TIMESTAMP_NS
            and 0 <= receive_ns <= MAX_TIMESTAMP_NS
            and 0 <= duration_ns <= _MAX_U32
            and 0 <= number <= _MAX_U32
            and len(data) <= MAX_FRAME_BYTES
            and (not found.sample_bytes or len(data) == found.sample_bytes)
            and self._part is not None
        ):
            timestamp_ns, number, receive_ns, duration_ns = self._checked(
                found, data, timestamp_ns, number, receive_ns, duration_ns
            )
        flags = found.flags | KEY_FRAME if key_frame else found.flags
        if timestamp_ns <= self._cutter.taken_to_ns:
            flags |= LATE
            found.late += 1
        found.frames += 1
        found.bytes += len(data)
        if not found.sample_bytes:
            found.next_index = number + 1
        item = _Pending(found, timestamp_ns, data, flags, number, receive_ns, duration_ns)
        if self._cutter.push(timestamp_ns, item):
            self._close(self._cutter.cut())

    def set_drops(self, drops: list[Drop]) -> None:
        """Counts of frames that were lost before they came here; stored in the file."""
        self._drops = drops
        self.part.set_drops(drops)

    def flush(self) -> None:
        """Close every open window and write it. What comes later for these windows is stored as late."""
        self._close(self._cutter.flush())
        self.write_closed()

    def write_closed(self) -> None:
        """Wait for the compressor and write every window that is closed by now."""
        for window in self._compressor.drain():
            self._write(window)

    def sync(self) -> int:
        """Write every closed window and ask the disk to hold it; the number of windows in the file that are safe."""
        self.write_closed()
        return self.part.sync()

    def roll(self, path: str | os.PathLike[str]) -> WriteSummary:
        """Finish this file and go on in a new one at `path`, with the same streams; open windows go to the new file."""
        summary = self._finish_part()
        self._part = self._open(path)
        return summary

    def finalize(self) -> WriteSummary:
        """Write all that is open, finish the file and give it its name. Raises OSError, saying what is safe."""
        self.part  # noqa: B018 - raises after the end
        try:
            self._close(self._cutter.flush())
            return self._finish_part()
        finally:
            self._compressor.close()

    def abort(self) -> None:
        """Give up: remove the unfinished file. After the end this does nothing."""
        self._compressor.close()
        if self._part is not None:
            self._part.abort()
            self._part = None

    def __enter__(self) -> HyperframeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._part is None:
            return
        if error is None:
            self.finalize()
        elif self._part.failed:
            self.detach()
        else:
            self.abort()

    def detach(self) -> None:
        """Stop without finishing: the .tmp file stays as it is, for `trainload recover`."""
        self._compressor.close()
        if self._part is not None:
            self._part.detach()
            self._part = None

    def _open(self, path: str | os.PathLike[str]) -> Part:
        part = Part(path, self._cutter.window_ns, meta=self._meta, overwrite=self._overwrite, open_file=self._open_file)
        part.set_streams(self._streams.infos)
        part.set_drops(self._drops)
        return part

    def _finish_part(self) -> WriteSummary:
        part = self.part
        self.write_closed()
        self._part = None
        table = part.finalize()
        counted = list(self._streams)
        return WriteSummary(
            os.fspath(part.path), part.frames, len(table), sum(stream.bytes for stream in counted), part.size,
            {stream.info.name: stream.late for stream in counted if stream.late}, tuple(self._streams.warnings),
        )  # fmt: skip

    def _close(self, windows: Iterable[CutWindow[_Pending]]) -> None:
        for window in windows:
            frames, encodings = _stored_frames(window.items)
            self._compressor.submit(window.start_ns, window.end_ns, frames, encodings)
        for ready in self._compressor.finished():
            self._write(ready)

    def _write(self, window: EncodedWindow) -> None:
        self.part.write_window(window.start_ns, window.end_ns, window.frames)

    def _checked(self, stream: OpenStream, data: bytes, *numbers: Any) -> tuple[int, ...]:
        """The slow way through `append`'s checks: numpy integers become ints, and what is wrong gets its own error."""
        self.part  # noqa: B018 - raises after the end
        checked = []
        names = ("timestamp_ns", "stream_index", "receive_ns", "duration_ns")
        limits = (MAX_TIMESTAMP_NS, _MAX_U32, MAX_TIMESTAMP_NS, _MAX_U32)
        for name, value, most in zip(names, numbers, limits):
            try:
                number = operator.index(value)
            except TypeError:
                raise UsageError(f"{name} is a whole number, not {value!r}") from None
            if not 0 <= number <= most:
                raise UsageError(f"{name} must be from 0 to {most:,}, not {number:,}")
            checked.append(number)
        if len(data) > MAX_FRAME_BYTES:
            raise UsageError(f"a frame holds at most {MAX_FRAME_BYTES:,} bytes (4 GiB - 1), not {len(data):,}")
        if stream.sample_bytes and len(data) != stream.sample_bytes:
            raise UsageError(
                f"stream {stream.info.name!r} packs samples of {stream.sample_bytes} bytes, not {len(data):,}"
            )
        return tuple(checked)


def _copied(payload: Buffer) -> bytes:
    try:
        return memoryview(payload).tobytes()
    except TypeError:
        raise UsageError(f"a payload is bytes, an array or another buffer, not {type(payload).__name__}") from None


def _stored_frames(items: list[_Pending]) -> tuple[list[StoredFrame], list[Encoding | None]]:
    """The frames of one window in the order of their timestamps, samples of packed streams joined into one each."""
    frames: list[StoredFrame] = []
    encodings: list[Encoding | None] = []
    packs: dict[tuple[int, int], tuple[int, list[_Pending]]] = {}
    for item in items:
        stream, time, payload, flags, number, receive, duration = item
        if stream.sample_bytes:
            key = (stream.info.id, flags & LATE)
            if key in packs:
                packs[key][1].append(item)
                continue
            packs[key] = (len(frames), [item])
        frames.append(StoredFrame(time, stream.info.id, flags, number, payload, receive, duration))
        encodings.append(stream.encoding)
    for place, samples in packs.values():
        frames[place] = _pack(frames[place], samples)
    return frames, encodings


def _pack(first: StoredFrame, samples: list[_Pending]) -> StoredFrame:
    stream = samples[0].stream
    parts: list[bytes] = []
    for sample in samples:
        parts += (_TIME.pack(sample.timestamp_ns), sample.payload)
    number, stream.next_index = stream.next_index, stream.next_index + 1
    return first._replace(stored=b"".join(parts), flags=first.flags | PACKED, stream_index=number)
