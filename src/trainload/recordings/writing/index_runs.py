"""The index of a file while it is written: any number of entries in bounded memory, given back in the order of time.

Entries gather in runs of RUN_FRAMES; a full run is sorted by time and put aside (spool.py). Every SAMPLE_EVERY-th time
stays in memory. It tells where to cut all runs, so that each piece of the result needs a small stretch of few runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainload.recordings.format.hyperframe import INDEX_DTYPE, INDEX_ENTRY_BYTES, MAX_TIMESTAMP_NS, Index
from trainload.recordings.format.sections import TAG_DURATIONS, TAG_RECEIVE_TIMES
from trainload.recordings.format.windows import window_starts
from trainload.recordings.writing.spool import Spool

RUN_FRAMES = 1 << 16
SAMPLE_EVERY = 256
SIDE_COLUMNS = {TAG_RECEIVE_TIMES: "receive_ns", TAG_DURATIONS: "duration_ns"}
# An entry is plain bytes here, since numpy moves those ten times as fast as fields (measured).
ROW_DTYPE = np.dtype([("entry", f"V{INDEX_ENTRY_BYTES}"), ("receive_ns", "<u8"), ("duration_ns", "<u4")])

Rows = NDArray[np.void]  # of ROW_DTYPE


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows first .. first + count of the spool, ascending in time; samples: the time of every SAMPLE_EVERY-th row."""

    first: int
    count: int
    samples: NDArray[np.int64]
    last_ns: int

    def around(self, low_ns: int, high_ns: int) -> tuple[int, int]:
        """The rows, [begin, end) of the run, that hold all times from low_ns to high_ns, and few others."""
        if self.last_ns < low_ns:
            return 0, 0
        begin = max(0, int(self.samples.searchsorted(low_ns)) - 1) * SAMPLE_EVERY
        end = int(self.samples.searchsorted(high_ns, "right")) * SAMPLE_EVERY
        return begin, min(end, self.count)


class IndexRuns:
    """Takes the entries of one window after another; after `finish`, `by_time` gives all. Spooled in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._spool = Spool(folder)
        self._runs: list[_Run] = []
        self._windows: list[tuple[bytes, bytes, bytes]] = []  # of the run that is not full yet
        self._waiting = self._aside = 0  # rows in these, and in the runs
        self.side: list[bytes] = []  # RECV and DURA, if some window had them, in the order of coming
        self.counts: dict[int, int] = {}  # rows of each stream id, in the runs

    def make_room(self) -> None:
        """Put a full run aside. After an OSError it is still here, and nothing is lost."""
        if self._waiting >= RUN_FRAMES:
            self._end_run()

    def add(self, entries: bytes, side: dict[bytes, bytes]) -> None:
        """Take the entries of one window, and the bodies of its RECV and DURA where it has them."""
        count = len(entries) // INDEX_ENTRY_BYTES
        self.side += [tag for tag in side if tag not in self.side]
        receive_ns, duration_ns = side.get(TAG_RECEIVE_TIMES), side.get(TAG_DURATIONS)
        self._windows.append((entries, receive_ns or bytes(8 * count), duration_ns or bytes(4 * count)))
        self._waiting += count

    def finish(self) -> None:
        """End the last run, so that `counts` and `by_time` know of all rows."""
        if self._waiting:
            self._end_run()

    def by_time(self) -> Iterator[Rows]:
        """All rows in ascending order of time, equal times in the order of adding, in pieces of about RUN_FRAMES."""
        if not self._runs:
            return
        samples = np.sort(np.concatenate([run.samples for run in self._runs]))  # the earliest time of all is first
        lows = sorted(set(samples[:: max(1, RUN_FRAMES // SAMPLE_EVERY)].tolist()))
        highs = [*(low_ns - 1 for low_ns in lows[1:]), MAX_TIMESTAMP_NS]
        for low_ns, high_ns in zip(lows, highs):
            rows = np.concatenate([self._between(run, low_ns, high_ns) for run in self._runs])
            yield rows.take(times_of(rows).argsort(kind="stable"))

    def close(self) -> None:
        """Give memory and disk back."""
        self._spool.close()
        self._windows.clear()

    def _between(self, run: _Run, low_ns: int, high_ns: int) -> Rows:
        begin, end = run.around(low_ns, high_ns)
        if begin >= end:
            return np.empty(0, ROW_DTYPE)
        data = self._spool.read_at((run.first + begin) * ROW_DTYPE.itemsize, (end - begin) * ROW_DTYPE.itemsize)
        rows: Rows = np.frombuffer(data, ROW_DTYPE)
        times = times_of(rows)
        return rows[times.searchsorted(low_ns) : times.searchsorted(high_ns, "right")]

    def _end_run(self) -> None:
        rows = np.empty(self._waiting, ROW_DTYPE)
        entries, receive_ns, duration_ns = (b"".join(column) for column in zip(*self._windows))
        rows["entry"] = np.frombuffer(entries, ROW_DTYPE["entry"])
        rows["receive_ns"] = np.frombuffer(receive_ns, "<u8")
        rows["duration_ns"] = np.frombuffer(duration_ns, "<u4")
        rows = rows.take(times_of(rows).argsort(kind="stable"))
        self._spool.write_at(self._aside * ROW_DTYPE.itemsize, rows.tobytes())
        times = times_of(rows)
        self._runs.append(_Run(self._aside, len(rows), times[::SAMPLE_EVERY].copy(), int(times[-1])))
        self._aside += len(rows)
        ids, counts = np.unique(entries_of(rows)["stream_id"], return_counts=True)
        for stream_id, count in zip(ids.tolist(), counts.tolist()):
            self.counts[stream_id] = self.counts.get(stream_id, 0) + count
        self._windows.clear()
        self._waiting = 0


def entries_of(rows: Rows) -> Index:
    """The index entries of some rows, a view."""
    return rows["entry"].view(INDEX_DTYPE)


def times_of(rows: Rows) -> NDArray[np.int64]:
    """The timestamps of some rows."""
    return entries_of(rows)["timestamp_ns"].astype(np.int64)


def whole_windows(pieces: Iterable[Rows], window_ns: int) -> Iterator[Rows]:
    """Rows in the order of time, cut anew so that no window lies in two pieces; columns beside ROW_DTYPE's stay."""
    rest: Rows | None = None
    for piece in pieces:
        if rest is None:
            rest = piece
            continue
        times = times_of(rest)
        last = int(times.searchsorted(window_starts(times, window_ns)[-1]))  # `piece` may go on with this window
        if last:
            yield rest[:last]
        rest = np.concatenate((rest[last:], piece))
    if rest is not None:
        yield rest
