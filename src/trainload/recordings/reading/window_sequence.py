"""All windows of a recording as a sequence: which bytes a span of windows needs, read at once."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import overload

import numpy as np
from numpy.typing import NDArray

from trainload.codecs.table import NONE as NO_CODEC
from trainload.errors import UsageError
from trainload.recordings.format.hyperframe import Index
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.file import HyperframeFile
from trainload.recordings.reading.frame_reads import STEP_BYTES, STEPS_KEPT, StoredBytes, Stretches, plan_stretches
from trainload.recordings.reading.window import Window
from trainload.running.helpers import AHEAD, Helpers
from trainload.storage.reused import StepMemory
from trainload.storage.source import Source

AHEAD_BYTES = 8 << 20  # that an iteration tells the system of, and that helpers may have in their hands
_MOST_WINDOWS = 256  # at once, however small they are

ReadStretches = Callable[[Source, Stretches], list[memoryview]]


class WindowSequence:
    """len, `windows[k]` and `windows[k0:k1]`, iteration; `windows(k0, k1)` is the same as `windows[k0:k1]`.

    starts, ends: int64 [w], the spans, both ends included. A slice is read by one read and lies in memory whole.
    """

    def __init__(
        self, files: Sequence[HyperframeFile], infos: Mapping[int, StreamInfo], threads: int | None = None
    ) -> None:
        """threads: helpers of an iteration, as in HyperframeReader."""
        self._files = files
        self._infos = infos
        self._threads = threads
        self._by_name = {info.name: info for info in infos.values()}
        tables = [file.windows for file in files]
        self._first = np.cumsum([0, *(len(table) for table in tables)]).tolist()  # first window of each file, closed
        self.starts: NDArray[np.int64] = np.concatenate([table.start_ns for table in tables])
        self.ends: NDArray[np.int64] = np.concatenate([table.end_ns for table in tables])
        sizes = np.concatenate([table.extent_size for table in tables])
        self._bytes_before = np.concatenate([[0], sizes.cumsum(dtype=np.int64)]).data  # of each window, closed
        self._compressed = {info.name for info in infos.values() if info.codec != NO_CODEC}

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, k: int) -> Window: ...
    @overload
    def __getitem__(self, k: slice) -> list[Window]: ...
    def __getitem__(self, k: int | slice) -> Window | list[Window]:
        if isinstance(k, int):
            return self.read(k, k + 1 or len(self))[0]
        first, last, step = k.indices(len(self))
        if step != 1:
            raise UsageError("windows are read in order: a slice of windows has no step")
        return self.read(first, last) if first < last else []

    def __call__(self, k0: int, k1: int) -> list[Window]:
        return self[k0:k1]

    def __iter__(self) -> Iterator[Window]:
        return self.between(None, None)

    def counts(self, stream: str) -> NDArray[np.int64]:
        """How many frames of a stream each window has: int64 [w]. Raises UsageError for an unknown stream."""
        stream_id = self._by_name_or_error(stream).id
        counts = []
        for table in (file.windows for file in self._files):
            columns = np.flatnonzero(table.stream_ids == stream_id)
            counts.append(table.count[:, columns].sum(axis=1, dtype=np.int64))
        return np.concatenate(counts)

    def entries(self, k: int, streams: Sequence[str] | None = None) -> dict[str, Index]:
        """The index entries of window `k` by stream name, silent streams left out, in time order; nothing is read."""
        part = bisect_right(self._first, k) - 1
        return self._entries(self._files[part], k - self._first[part], streams)

    def between(
        self,
        start_ns: int | None,
        end_ns: int | None,
        streams: Sequence[str] | None = None,
        *,
        take: Iterable[str] = (),
    ) -> Iterator[Window]:
        """The windows that touch start_ns <= time < end_ns, in order, several per read, up to 4 MB at once.

        take: streams that the caller will ask for. What he took from the windows before is asked for again, so helpers
        unpack it a few windows ahead where that takes long.
        """
        if isinstance(start_ns, float) or isinstance(end_ns, float):
            raise UsageError(f"times are whole nanoseconds, not {start_ns!r} and {end_ns!r}")
        first = 0 if start_ns is None else int(np.searchsorted(self.ends, start_ns))
        last = len(self) if end_ns is None else int(np.searchsorted(self.starts, end_ns))
        groups, wanted = self._groups(first, last, streams), self._compressed.intersection(take)
        pending, begun = deque[Window](), 0
        with Helpers(self._threads) as helpers:
            while True:
                while not pending or (helpers.are_busy and self._may_read_ahead(pending)):
                    group = next(groups, None)
                    if group is None:
                        break
                    pending += group
                if not pending:
                    return
                for window in islice(pending, begun, AHEAD):
                    window.begin(wanted, helpers)
                begun = min(len(pending), AHEAD) - 1
                window = pending.popleft()
                yield window
                if not wanted.issuperset(window.taken & self._compressed):
                    wanted, begun = wanted | window.taken & self._compressed, 0

    def _groups(self, k: int, last: int, streams: Sequence[str] | None) -> Iterator[list[Window]]:
        """Windows k to last - 1 in groups, each by one read; the system hears of whole ones in good time."""
        announced, memory = k, StepMemory(STEPS_KEPT)
        while k < last:
            end = min(self._end_of(k, STEP_BYTES), last)
            if streams is None and announced < last and self._end_of(end, AHEAD_BYTES // 2) > announced:
                start, announced = max(end, announced), min(self._end_of(max(end, announced), AHEAD_BYTES), last)
                self.will_need(start, announced)
            yield self.read(k, end, streams, into=memory.read)
            k = end

    def _may_read_ahead(self, pending: deque[Window]) -> bool:
        sizes = self._bytes_before[pending[-1].number + 1] - self._bytes_before[pending[0].number]
        return len(pending) < AHEAD and sizes < AHEAD_BYTES

    def read(
        self, k0: int, k1: int, streams: Sequence[str] | None = None, *, into: ReadStretches | None = None
    ) -> list[Window]:
        """Windows k0 to k1 - 1, by one read per file that they lie in; `streams` leaves out all others.

        into: reads stretches of a source into memory of its own; left out, memory is fresh and the windows'.
        Raises IndexError for windows that are not there, UsageError for an unknown stream.
        """
        count = len(self)
        k0, k1 = k0 + count if k0 < 0 else k0, k1 + count if k1 < 0 else k1
        if not 0 <= k0 < k1 <= count:
            raise IndexError(f"windows {k0} to {k1} of {count}")
        for name in streams or ():
            self._by_name_or_error(name)
        windows: list[Window] = []
        for part, file in enumerate(self._files):
            first, last = max(k0, self._first[part]), min(k1, self._first[part + 1])
            if first < last:
                windows += self._read_part(file, self._first[part], first, last, streams, into)
        return windows

    def will_need(self, k0: int, k1: int, streams: Sequence[str] | None = None) -> None:
        """A hint that `read` is called with the same arguments soon: the system may have read those bytes by then."""
        for part, file in enumerate(self._files):
            base, first, last = self._first[part], max(k0, self._first[part]), min(k1, self._first[part + 1])
            if first < last:
                wanted = [self._entries(file, k - base, streams) for k in range(first, last)]
                for start, end in _stretches(file, slice(first - base, last - base), wanted, streams):
                    file.source.will_need(start, end - start)

    def _by_name_or_error(self, stream: str) -> StreamInfo:
        info = self._by_name.get(stream)
        if info is None:
            raise UsageError(f"no stream {stream!r}; the recording has {', '.join(self._by_name)}")
        return info

    def _read_part(
        self,
        file: HyperframeFile,
        base: int,
        k0: int,
        k1: int,
        streams: Sequence[str] | None,
        into: ReadStretches | None,
    ) -> list[Window]:
        wanted = [self._entries(file, k - base, streams) for k in range(k0, k1)]
        stretches = _stretches(file, slice(k0 - base, k1 - base), wanted, streams)
        data = StoredBytes(file, stretches, None if into is None else partial(into, file.source))
        spans = zip(range(k0, k1), self.starts[k0:k1].tolist(), self.ends[k0:k1].tolist(), wanted)
        return [Window(k, start, end, file, self._by_name, entries, data) for k, start, end, entries in spans]

    def _entries(self, file: HyperframeFile, k: int, streams: Sequence[str] | None) -> dict[str, Index]:
        """The index entries of window `k` of one file, by stream name, silent streams left out."""
        table = file.windows
        found: dict[str, Index] = {}
        for stream_id, first, count in zip(table.stream_ids.tolist(), table.first[k].tolist(), table.count[k].tolist()):
            name = self._infos[stream_id].name
            if count and (streams is None or name in streams):
                start = file.rows[stream_id].start + first
                found[name] = file.index[start : start + count]
        return found

    def _end_of(self, k: int, size: int) -> int:
        """The end of a group of windows from `k` of at most `size` bytes in the file, at least one window."""
        end = bisect_right(self._bytes_before, self._bytes_before[k] + size) - 1
        return min(max(k + 1, end), k + _MOST_WINDOWS)


def _stretches(
    file: HyperframeFile, rows: slice, wanted: Sequence[dict[str, Index]], streams: Sequence[str] | None
) -> Stretches:
    """The (start, end) of the reads that bring the `wanted` entries of some windows, or all that the windows hold."""
    if streams is None and file.window_table_stored:
        return _extent(file, rows)
    return plan_stretches([part for window in wanted for part in window.values()])


def _extent(file: HyperframeFile, rows: slice) -> list[tuple[int, int]]:
    """The one (start, end) that spans the extents of some windows; none where all their frames came late."""
    table = file.windows
    extents = zip(table.extent_offset[rows].tolist(), table.extent_size[rows].tolist())
    used = [(offset, offset + size) for offset, size in extents if size]
    return [(min(start for start, _ in used), max(end for _, end in used))] if used else []
