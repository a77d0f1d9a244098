"""Frames of closed windows, encoded in a bounded pool of threads; windows come out in the order they went in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from trainload.codecs.codec import Codec
from trainload.machine.cpus import usable_cpus
from trainload.machine.threads import no_threads
from trainload.recordings.format.payload import encode_payload
from trainload.recordings.writing.part import StoredFrame

IN_FLIGHT_BYTES = 64 << 20  # data that waits in the pool, before the caller has to wait
TASK_BYTES = 128 << 10  # small frames share one task, so that a task's cost disappears beside its work


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one stream's frames are stored: codec, its level, element size of the shuffle (0: none)."""

    codec: Codec
    level: int
    element_size: int


@dataclass(slots=True)
class EncodedWindow:
    """A window on its way to the file. `frames` hold raw data where `encodings` names what is to be done to them."""

    start_ns: int
    end_ns: int
    frames: list[StoredFrame]
    encodings: list[Encoding | None]
    tasks: list[Future[None]]
    size: int


class Compressor:
    """A pool of `threads` (None: one for each core, at most 4) that starts with the first frame that has a codec."""

    def __init__(self, threads: int | None = None, limit_bytes: int = IN_FLIGHT_BYTES) -> None:
        self._threads = threads or min(4, usable_cpus())
        self._limit_bytes = limit_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._windows: deque[EncodedWindow] = deque()
        self._in_flight = 0

    def submit(self, start_ns: int, end_ns: int, frames: list[StoredFrame], encodings: list[Encoding | None]) -> None:
        """Take one closed window; encoding starts at once. Raises OSError where there is no thread to be had."""
        window = EncodedWindow(start_ns, end_ns, frames, encodings, [], sum(len(frame.stored) for frame in frames))
        self._windows.append(window)
        self._in_flight += window.size
        if any(encodings):
            self._start(window)

    def finished(self) -> Iterator[EncodedWindow]:
        """The windows that can be written now, in order. Waits only while more than the limit is in flight."""
        while self._windows:
            window = self._windows[0]
            if self._in_flight <= self._limit_bytes and not all(task.done() for task in window.tasks):
                return
            yield self._take()

    def drain(self) -> Iterator[EncodedWindow]:
        """All windows that were taken, in order, waiting for each."""
        while self._windows:
            yield self._take()

    def close(self) -> None:
        """End the threads; windows that were not taken out are lost."""
        self._windows.clear()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _take(self) -> EncodedWindow:
        window = self._windows.popleft()
        self._in_flight -= window.size
        for task in window.tasks:
            task.result()
        return window

    def _start(self, window: EncodedWindow) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="trainload-compress")
        places: list[int] = []
        size = 0
        for place, encoding in enumerate(window.encodings):
            if encoding is None:
                continue
            places.append(place)
            size += len(window.frames[place].stored)
            if size >= TASK_BYTES:
                window.tasks.append(_submit(self._pool, window, places))
                places, size = [], 0
        if places:
            window.tasks.append(_submit(self._pool, window, places))


def _submit(pool: ThreadPoolExecutor, window: EncodedWindow, places: list[int]) -> Future[None]:
    try:
        return pool.submit(_encode, window, places)
    except RuntimeError as error:
        if "start new thread" not in str(error):  # the interpreter ends
            raise
        raise no_threads() from error


def _encode(window: EncodedWindow, places: list[int]) -> None:
    """Encode the frames at `places`; no other task touches these."""
    for place in places:
        frame, encoding = window.frames[place], window.encodings[place]
        assert encoding is not None
        stored, flags = encode_payload(bytes(frame.stored), encoding.codec, encoding.level, encoding.element_size)
        window.frames[place] = frame._replace(stored=stored, flags=frame.flags | flags)
