"""The recorder's one queue: bounded in bytes, with a policy per frame for the moment when it is full."""

from __future__ import annotations

import threading
import time
from collections import deque

from trainload.errors import UsageError
from trainload.recordings.format.sections import Drop
from trainload.recordings.writing.pending_frames import PendingFrame

BLOCK, DROP_OLDEST, DROP_NEWEST = "block", "drop_oldest", "drop_newest"
POLICIES = (BLOCK, DROP_OLDEST, DROP_NEWEST)
FRAME_COST_BYTES = 400  # what a queued frame costs beside its payload, so that tiny frames are bounded too

_Entry = list[PendingFrame]  # one frame, or none once it was dropped


class FrameQueue:
    """Frames from many threads to one. A queue that is closed gives what it holds, then nothing.

    When `limit_bytes` would be exceeded: `block` waits for room; `drop_oldest` drops the oldest queued frames of the
    same stream, and the new one where none are left; `drop_newest` drops the new one. A frame larger than the limit
    passes when the queue is empty.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entries: deque[_Entry] = deque()
        self._by_stream: dict[int, deque[_Entry]] = {}
        self._drops: dict[tuple[int, str], list[int]] = {}
        self._error: BaseException | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._drained = threading.Condition(self._lock)
        self._taker_waits = False
        self._empty_entries = 0  # places of dropped frames
        self.size_bytes = 0
        self.frames = 0

    def put(self, frame: PendingFrame, policy: str) -> bool:
        """Queue one frame; False where it was dropped instead. Raises the error that `fail` gave."""
        size = len(frame.payload) + FRAME_COST_BYTES
        with self._lock:
            if self.size_bytes + size > self._limit_bytes and not self._make_room(frame, size, policy):
                self._count_drop(frame, policy)
                return False
            if self._error is not None:
                raise self._error
            if self._closed:
                raise UsageError("the recording is closed; open another one to write more")
            entry = [frame]
            self._entries.append(entry)
            if policy == DROP_OLDEST:
                self._by_stream.setdefault(frame.stream.info.id, deque()).append(entry)
            self.size_bytes += size
            self.frames += 1
            if self._taker_waits:
                self._filled.notify()
        return True

    def take(self, most_bytes: int, timeout_s: float) -> list[PendingFrame] | None:
        """Up to about `most_bytes` of frames in the order they came; [] after the timeout, None when all is over."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while not self._entries and not self._closed:
                self._taker_waits = True
                left = deadline - time.monotonic()
                if left <= 0 or not self._filled.wait(left):
                    break
            self._taker_waits = False
            if not self._entries:
                return None if self._closed else []
            frames: list[PendingFrame] = []
            taken = 0
            while self._entries and taken < most_bytes:
                entry = self._entries.popleft()
                self._empty_entries -= not entry
                for frame in entry:
                    frames.append(frame)
                    taken += len(frame.payload) + FRAME_COST_BYTES
            self._forget(frames)
            self.size_bytes -= taken
            self.frames -= len(frames)
            self._drained.notify_all()
        return frames

    def close(self) -> None:
        """No more frames will come."""
        with self._lock:
            self._closed = True
            self._filled.notify_all()
            self._drained.notify_all()

    def fail(self, error: BaseException) -> None:
        """Nobody will take frames any more: everyone who puts one gets `error`."""
        with self._lock:
            self._error = error
            self._drained.notify_all()

    def drops(self) -> list[Drop]:
        """What was dropped up to now, by stream and reason."""
        with self._lock:
            return [Drop(stream, reason, *counts) for (stream, reason), counts in sorted(self._drops.items())]

    def _make_room(self, frame: PendingFrame, size: int, policy: str) -> bool:
        if policy == DROP_OLDEST:
            mine = self._by_stream.get(frame.stream.info.id)
            while mine and self.size_bytes + size > self._limit_bytes:
                self._drop(mine.popleft())
        while policy == BLOCK and self._too_full(size) and self._error is None and not self._closed:
            self._drained.wait()
        return not self._too_full(size) or self._error is not None or self._closed

    def _too_full(self, size: int) -> bool:
        return self.frames > 0 and self.size_bytes + size > self._limit_bytes

    def _drop(self, entry: _Entry) -> None:
        frame = entry.pop()
        self.size_bytes -= len(frame.payload) + FRAME_COST_BYTES
        self.frames -= 1
        self._count_drop(frame, DROP_OLDEST)
        self._empty_entries += 1
        if self._empty_entries > self.frames + 64:
            self._entries = deque(entry for entry in self._entries if entry)
            self._empty_entries = 0

    def _count_drop(self, frame: PendingFrame, reason: str) -> None:
        counts = self._drops.setdefault((frame.stream.info.id, reason), [0, 0])
        counts[0] += 1
        counts[1] += len(frame.payload)

    def _forget(self, frames: list[PendingFrame]) -> None:
        """Take what left the queue from its stream's list; both are in the order of arrival."""
        for frame in frames:
            mine = self._by_stream.get(frame.stream.info.id)
            if mine and mine[0] and mine[0][0] is frame:
                mine.popleft()
