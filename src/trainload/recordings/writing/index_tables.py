"""What a finished file says of its frames: index, RECV, DURA and WNDW, from the index by time, in bounded memory.

Order and window rule are those of formats/, applied to one stretch of whole windows after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np

from trainload.recordings.format.hyperframe import index_order
from trainload.recordings.format.windows import PART_TYPES, WindowTable, table_head, window_table
from trainload.recordings.writing.index_runs import ROW_DTYPE, SIDE_COLUMNS, IndexRuns, Rows, entries_of, whole_windows
from trainload.recordings.writing.spool import Spool


class IndexTables:
    """The tables, spooled in `folder`. windows: their number; start_ns, end_ns: of the first and the last (0: none).

    columns: all entries in their order, "entry", and what some frame had beside them, "receive_ns", "duration_ns".
    """

    def __init__(self, folder: Path, runs: IndexRuns, window_ns: int) -> None:
        runs.finish()
        self.windows = self.start_ns = self.end_ns = 0
        self.columns = {name: Spool(folder) for name in ("entry", *(SIDE_COLUMNS[tag] for tag in runs.side))}
        self._window_parts = {name: Spool(folder) for name in PART_TYPES}
        self._stream_ids = np.array(sorted(runs.counts), np.uint16)
        counts = [runs.counts[stream_id] for stream_id in self._stream_ids.tolist()]
        self._begin = np.cumsum([0, *counts], dtype=np.int64)[:-1]  # of each stream in the index
        self._done = np.zeros(len(counts), np.int64)  # rows of each stream that are in their place
        try:
            for rows in whole_windows(runs.by_time(), window_ns):
                rows = rows.take(index_order(entries_of(rows)))
                self._add_windows(window_table(entries_of(rows), window_ns))
                self._add_rows(rows)
        except BaseException:
            self.close()
            raise

    def window_table(self) -> Iterator[bytes]:
        """The body of WNDW, piece by piece."""
        yield table_head(self.windows, len(self._stream_ids))
        for part in self._window_parts.values():
            yield from part.chunks()

    def close(self) -> None:
        """Give memory and disk back."""
        for spool in (*self.columns.values(), *self._window_parts.values()):
            spool.close()

    def __enter__(self) -> IndexTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add_windows(self, some: WindowTable) -> None:
        """Append the windows that follow; `some` knows only its own rows and streams."""
        count = np.zeros((len(some), len(self._stream_ids)), np.uint32)
        count[:, self._stream_ids.searchsorted(some.stream_ids)] = some.count
        first = self._done + count.cumsum(axis=0, dtype=np.int64) - count
        some = replace(some, stream_ids=self._stream_ids, first=first.astype(np.uint32), count=count)
        for name, data in some.parts_to_bytes().items():
            part = self._window_parts[name]
            part.write_at(0 if name == "stream_ids" else part.size, data)
        if self.windows == 0:
            self.start_ns = int(some.start_ns[0])
        self.end_ns = int(some.end_ns[-1])
        self.windows += len(some)

    def _add_rows(self, rows: Rows) -> None:
        """Put rows, sorted as the index is, where they belong in it."""
        ids, bounds = np.unique(entries_of(rows)["stream_id"], return_index=True)
        places = self._stream_ids.searchsorted(ids)
        for place, begin, end in zip(places.tolist(), bounds.tolist(), [*bounds[1:].tolist(), len(rows)]):
            first = int(self._begin[place] + self._done[place])
            for name, spool in self.columns.items():
                spool.write_at(first * ROW_DTYPE[name].itemsize, rows[name][begin:end].tobytes())
            self._done[place] += end - begin
