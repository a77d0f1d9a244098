"""Recorder: frames from any thread, as they come, into a file that survives a crash of the program or of the power.

One queue, one writing thread. Windows close by watermark, are synced every so often, and stay readable whatever comes.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns as parse_duration
from trainload.machine.threads import start_thread
from trainload.recordings.format.sections import Drop
from trainload.recordings.writing.durable import Durable
from trainload.recordings.writing.part import OpenFile, keep_tmp
from trainload.recordings.writing.part_folder import PartFolder
from trainload.recordings.writing.queue import BLOCK, POLICIES, FrameQueue
from trainload.recordings.writing.stats import RateMeter, RecorderStats, StreamStats
from trainload.recordings.writing.streams import StreamOptions
from trainload.recordings.writing.writer import HyperframeWriter, WriteSummary

if TYPE_CHECKING:
    from trainload.recordings.writing.pending_frames import Payload

QUEUE_BYTES = 256 << 20
_ALL_BYTES = ""  # no stream has this name
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """A finished recording: its parts in order, and what was dropped before it could be written."""

    parts: tuple[WriteSummary, ...]
    drops: tuple[Drop, ...]

    @property
    def frames(self) -> int:
        return sum(part.frames for part in self.parts)

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.parts[-1].warnings if self.parts else ()


class Recorder:
    """Records live streams to `path`; leaving the `with` block, even by an exception, finishes the file.

    window, lateness: as HyperframeWriter takes them. sync_every: how often what was written is made to reach the disk;
    a power cut loses at most that, the open windows (window + lateness) and the queue. queue_bytes: bound of the queue.
    policy: for a full queue, `block`, `drop_oldest` or `drop_newest`; add_stream may set another. split_bytes,
    split_duration: start a new file once a part has that size or spans that time; `path` is then a folder of parts.
    receive_times: keep when each frame was handed over, beside its timestamp. on_commit(windows, path): called by
    the writing thread after every sync with the number of windows of the current file that are safe; `durable` then
    says up to which time and frame.

    `write` and `add_stream` may be called from any thread.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        window: str | int = "100ms",
        lateness: str | int | None = None,
        sync_every: str | int = "1s",
        queue_bytes: int = QUEUE_BYTES,
        policy: str = BLOCK,
        split_bytes: int | None = None,
        split_duration: str | int | None = None,
        threads: int | None = None,
        meta: dict[str, Any] | None = None,
        overwrite: bool = False,
        receive_times: bool = True,
        on_commit: Callable[[int, Path], None] | None = None,
        open_file: OpenFile = keep_tmp,
    ) -> None:
        self._policy = _known_policy(policy)
        self._sync_every_s = parse_duration(sync_every, what="sync_every") / 1e9
        self._queue_bytes = _positive(queue_bytes, "queue_bytes")
        self._queue = FrameQueue(self._queue_bytes)
        self._part_folder = part_folder = _part_folder(Path(path), split_bytes, split_duration)
        if part_folder is not None:
            part_folder.make_folder(overwrite=overwrite)
        try:
            self._writer = HyperframeWriter(
                path if part_folder is None else part_folder.path(0),
                window=window,
                lateness=lateness,
                threads=threads,
                meta=meta,
                overwrite=overwrite,
                part_folder=part_folder,
                drops=self._queue.drops,
                open_file=open_file,
            )
        except BaseException:
            self._let_go()
            raise
        self._writer_lock = threading.RLock()  # add_stream, and the writing thread
        self._index_lock = threading.Lock()  # the streams' counters
        self._policies: dict[int | str, str] = {}
        self._receive_times = receive_times
        self._on_commit = on_commit
        self._error: BaseException | None = None
        self._summary: RecordSummary | None = None
        self._meter = RateMeter()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="trainload-recorder", daemon=True)
        try:
            start_thread(self._thread)
        except BaseException:
            self._writer.abort()
            self._let_go()
            raise

    @property
    def durable(self) -> Durable:
        """Up to which time and frame everything is on the disk, out of a power cut's reach. For any thread."""
        return self._writer.durable

    def add_stream(self, name: str, *, policy: str | None = None, **options: Unpack[StreamOptions]) -> int:
        """Declare a stream, as HyperframeWriter.add_stream does; policy: what a full queue does to its frames."""
        chosen = self._policy if policy is None else _known_policy(policy)
        with self._writer_lock:
            stream = self._writer.add_stream(name, **options)
        self._policies[stream] = self._policies[name] = chosen
        return stream

    def write(
        self,
        stream: int | str,
        timestamp_ns: int,
        payload: Payload,
        *,
        key_frame: bool = True,
        receive_ns: int | None = None,
        duration_ns: int = 0,
        stream_index: int | None = None,
    ) -> bool:
        """Hand over one frame; False where the stream's policy dropped it (its index is then missing in the file).

        receive_ns: left out, the time of this call. The rest as HyperframeWriter.append takes it. Raises UsageError for
        a frame that cannot be written, and the error that stopped the recording where one did.
        """
        if receive_ns is None:
            receive_ns = time.time_ns() if self._receive_times else 0
        if self._error is not None:
            raise self._error
        with self._index_lock:
            frame = self._writer.prepare(
                stream, timestamp_ns, payload, key_frame, receive_ns, duration_ns, stream_index
            )
        return self._queue.put(frame, self._policies.get(stream, self._policy))

    def stats(self) -> RecorderStats:
        """Counts and rates at this moment."""
        streams = self._writer.open_streams
        dropped: dict[int, int] = {}
        for drop in self._queue.drops():
            dropped[drop.stream_id] = dropped.get(drop.stream_id, 0) + drop.frames
        counts = {stream.info.name: stream.frames for stream in streams}
        rates = self._meter.rates({**counts, _ALL_BYTES: sum(stream.bytes for stream in streams)})
        part = self._writer.part
        return RecorderStats(
            seconds=time.monotonic() - self._started,
            megabytes_per_s=rates[_ALL_BYTES] / 1e6,
            queue_bytes=self._queue.size_bytes,
            queue_frames=self._queue.frames,
            windows=part.windows,
            committed_windows=part.synced_windows,
            parts=len(self._writer.parts),
            file_bytes=part.size,
            streams=tuple(
                StreamStats(
                    s.info.name, s.frames, s.bytes, rates[s.info.name], s.late, s.lost, dropped.get(s.info.id, 0)
                )
                for s in streams
            ),
            durable=self.durable,
        )

    def close(self) -> RecordSummary:
        """Write all that was handed over and finish the file. Raises what stopped the recording. Twice is fine."""
        self._queue.close()
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._summary is None:
            raise UsageError("the recording was ended by the interpreter")
        return self._summary

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._record()
            with self._writer_lock:
                self._writer.finalize()
            self._summary = RecordSummary(tuple(self._writer.parts), tuple(self._queue.drops()))
        except BaseException as error:  # handed to the callers of write() and close()
            self._error = self._rescued(error)
            self._queue.fail(self._error)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._part_folder is not None:
            self._part_folder.close()

    def _record(self) -> None:
        next_sync = time.monotonic() + self._sync_every_s
        quiet = True
        while True:
            frames = self._queue.take(self._queue_bytes // 8, max(0.0, next_sync - time.monotonic()))
            if frames is None:
                return
            quiet = quiet and not frames
            with self._writer_lock:
                for frame in frames:
                    self._writer.take(frame)
                if time.monotonic() >= next_sync:
                    self._sync(flush=quiet)
                    next_sync, quiet = time.monotonic() + self._sync_every_s, True

    def _sync(self, *, flush: bool) -> None:
        """Commit what is written; where nothing came since the last time, the open windows too."""
        if flush:
            self._writer.flush()
        windows = self._writer.sync()
        if self._on_commit is not None:
            self._on_commit(windows, self._writer.part.tmp_path)

    def _rescued(self, error: BaseException) -> BaseException:
        """After a full disk the file still ends with a whole window: finish it there, if the system lets us.

        Not where it was a sync that found no room: what the disk holds since the sync before is not known then.
        """
        part = self._writer.part
        try:
            if not isinstance(error, OSError) or error.errno not in _DISK_FULL or part.sync_failed:
                self._writer.leave()
                return error
            with self._writer_lock:
                summary = self._writer.finish_now()
        except (OSError, UsageError):  # no room for the index either, or the file is ended already
            return error
        text = f"the disk is full; the file ends with {summary.frames:,} frames, all readable; what came after is lost"
        return OSError(error.errno, text, summary.path)


def _known_policy(policy: str) -> str:
    if policy not in POLICIES:
        raise UsageError(f"a policy is one of {', '.join(POLICIES)}, not {policy!r}")
    return policy


def _positive(value: int, name: str) -> int:
    if value < 1:
        raise UsageError(f"{name} must be at least 1, not {value!r}")
    return value


def _part_folder(folder: Path, most_bytes: int | None, duration: str | int | None) -> PartFolder | None:
    """The folder for a recording in parts, where that is asked for. Raises UsageError."""
    if most_bytes is None and duration is None:
        return None
    return PartFolder(
        folder,
        None if most_bytes is None else _positive(most_bytes, "split_bytes"),
        None if duration is None else parse_duration(duration, what="split_duration"),
    )
