"""All windows of a recording as a sequence: which bytes a span of windows needs, read at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import overload

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.hyperframe import Index
from trainload.formats.hyperframe_streams import StreamInfo
from trainload.reading.hyperframe_file import HyperframeFile
from trainload.reading.runs import MAX_RUN_BYTES, Runs, Stretches, plan_stretches
from trainload.reading.window import Window
from trainload.storage.source import Source

ReadStretches = Callable[[Source, Stretches], list[memoryview]]


class WindowSequence:
    """len, `windows[k]` and `windows[k0:k1]`, iteration; `windows(k0, k1)` is the same as `windows[k0:k1]`.

    starts, ends: int64 [w], the spans, both ends included. A slice is read by one read and lies in memory whole.
    """

    def __init__(self, files: Sequence[HyperframeFile], infos: Mapping[int, StreamInfo]) -> None:
        self._files = files
        self._infos = infos
        self._by_name = {info.name: info for info in infos.values()}
        tables = [file.windows for file in files]
        self._first = np.cumsum([0, *(len(table) for table in tables)]).tolist()  # first window of each file, closed
        self.starts: NDArray[np.int64] = np.concatenate([table.start_ns for table in tables])
        self.ends: NDArray[np.int64] = np.concatenate([table.end_ns for table in tables])

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
        part = int(np.searchsorted(self._first, k, "right")) - 1
        return self._entries(self._files[part], k - self._first[part], streams)

    def between(
        self, start_ns: int | None, end_ns: int | None, streams: Sequence[str] | None = None
    ) -> Iterator[Window]:
        """The windows that touch start_ns <= time < end_ns, in order, several per read, up to 8 MB at once."""
        k = 0 if start_ns is None else int(np.searchsorted(self.ends, start_ns))
        last = len(self) if end_ns is None else int(np.searchsorted(self.starts, end_ns))
        while k < last:
            end = min(self._group_end(k), last)
            yield from self.read(k, end, streams)
            k = end

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

    def will_need(self, k0: int, k1: int) -> None:
        """A hint that windows k0 to k1 - 1 are read soon, late frames left out: the system may read them by then."""
        for part, file in enumerate(self._files):
            first, last = max(k0, self._first[part]), min(k1, self._first[part + 1])
            if first < last:
                rows = slice(first - self._first[part], last - self._first[part])
                offsets, sizes = file.windows.extent_offset[rows], file.windows.extent_size[rows]
                start, end = int(offsets[sizes > 0].min(initial=file.source.size)), int((offsets + sizes).max())
                file.source.will_need(start, max(0, end - start))

    def _by_name_or_error(self, stream: str) -> StreamInfo:
        info = self._by_name.get(stream)
        if info is None:
            raise UsageError(f"no stream {stream!r}; the recording has {', '.join(self._by_name)}")
        return info

    def _read_part(
        self, file: HyperframeFile, base: int, k0: int, k1: int, streams: Sequence[str] | None,
        into: ReadStretches | None,
    ) -> list[Window]:  # fmt: skip
        wanted = [self._entries(file, k - base, streams) for k in range(k0, k1)]
        if streams is None and file.window_table_stored:
            stretches = _extent(file, slice(k0 - base, k1 - base))
        else:
            stretches = plan_stretches([e for window in wanted for part in window.values() for e in part.tolist()])
        data = Runs(file, stretches, None if into is None else partial(into, file.source))
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

    def _group_end(self, k: int) -> int:
        """The end of a group of windows from `k` that one read of about 8 MB brings, at least one window."""
        part = int(np.searchsorted(self._first, k, "right")) - 1
        local = k - self._first[part]
        sizes = self._files[part].windows.extent_size[local : local + 256].cumsum()
        return k + max(1, int(np.searchsorted(sizes, MAX_RUN_BYTES, "right")))


def _extent(file: HyperframeFile, rows: slice) -> list[tuple[int, int]]:
    """The one (start, end) that spans the extents of some windows; none where all their frames came late."""
    table = file.windows
    extents = zip(table.extent_offset[rows].tolist(), table.extent_size[rows].tolist())
    used = [(offset, offset + size) for offset, size in extents if size]
    return [(min(start for start, _ in used), max(end for _, end in used))] if used else []
