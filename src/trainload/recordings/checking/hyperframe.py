"""Every checksum and every rule of one HFRM file, looked at; what is damaged, byte range by byte range.

Goes on after damage: a broken index is replaced by the window records, so that the payload is checked all the same.
Not covered by any checksum, and not looked at: the fill between frames.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.errors import FormatError
from trainload.formats.findings import Finding, Report
from trainload.formats.progress import Progress
from trainload.formats.rules import Rule
from trainload.memory.aligned import LEAST_HUGE_BYTES
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format import rules, sections
from trainload.recordings.format.records import Hole, WindowRecord, walk_records
from trainload.recordings.format.streams import StreamInfo, streams_from_bytes
from trainload.recordings.format.windows import WindowTable
from trainload.recordings.reading.tables import find_sections, read_header, read_section
from trainload.storage.location import open_source
from trainload.storage.reused import StepMemory
from trainload.storage.source import Source

MAX_FINDINGS = 1000  # of one kind; the rest is counted in `checked`
_READ_BYTES = LEAST_HUGE_BYTES


def verify_hyperframe(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Check one file: header, index, sections, window table, window records, the place and CRC-32 of every payload.

    progress: gets bytes of payload. Cost: one read of the whole file. Raises OSError
    where the system cannot read; damage is in the Report.
    """
    with open_source(path) as source:
        return _Verification(source, progress).run()


def verify_parts(paths: Sequence[str], *, progress: Progress | None = None) -> Report:
    """Check every part of a recording by itself; counts are summed, findings name their file."""
    total = Report(os.pathsep.join(paths))
    for path in paths:
        report = verify_hyperframe(path, progress=progress)
        total.findings += report.findings
        for name, value in report.checked.items():
            known = total.checked.get(name, 0)
            total.checked[name] = known + value if isinstance(known, int) and isinstance(value, int) else value
    return total


class _Verification:
    def __init__(self, source: Source, progress: Progress | None) -> None:
        self._source = source
        self._progress = progress
        self._report = Report(source.path, checked={"kind": "HFRM", "bytes": source.size})
        self._streams: dict[int, StreamInfo] = {}

    def run(self) -> Report:
        try:
            header = read_header(self._source)
        except FormatError as error:
            self._broken(error, None)
            return self._report
        index = self._index(header)
        if not header.plain:
            self._sections(header, index)
        recorded = self._records(header, index) if header.flags & hfrm.WINDOW_RECORDS else None
        entries = index if index is not None else recorded
        if entries is not None:
            self._header_facts(header, entries)
            self._places(header, entries)
            self._payloads(entries, has_crcs=bool(header.flags & hfrm.FRAME_CRCS))
        return self._report

    def _broken(self, error: FormatError, end: int | None) -> None:
        self._report.findings.append(replace(Finding.from_error(error), end=end))

    def _found(self, rule: Rule, *, field: str, found: object, expected: object, **place: int | str | None) -> None:
        offset = place.pop("offset", None)
        finding = Finding.of(rule, field, offset, found, expected, self._source.path, **place)  # type: ignore[arg-type]
        self._report.findings.append(finding)

    def _index(self, header: hfrm.HyperframeHeader) -> hfrm.Index | None:
        data = self._source.read_at(header.index_offset, header.index_size)
        self._report.checked["frames"] = header.frame_count
        try:
            return hfrm.index_from_bytes(data, header, file_size=self._source.size, path=self._source.path)
        except FormatError as error:
            end = header.index_offset + header.index_size
            self._broken(error, end)
            return None

    def _sections(self, header: hfrm.HyperframeHeader, index: hfrm.Index | None) -> None:
        count = 0
        try:
            for place in find_sections(self._source, header):
                try:
                    self._section(place.tag, read_section(self._source, place), header, index)
                except FormatError as error:
                    self._broken(error, place.end)
                count += 1
        except FormatError as error:
            self._broken(error, header.sections_offset + header.sections_size)
        self._report.checked["sections"] = count

    def _section(self, tag: bytes, body: bytes, header: hfrm.HyperframeHeader, index: hfrm.Index | None) -> None:
        path = self._source.path
        if tag == sections.TAG_STREAMS:
            self._streams = {info.id: info for info in streams_from_bytes(body, path=path)}
        elif tag == sections.TAG_WINDOWS:
            table = WindowTable.from_bytes(body, frame_count=header.frame_count, file_size=self._source.size, path=path)
            self._report.checked["windows"] = len(table)
            span = (int(table.start_ns[0]), int(table.end_ns[-1])) if len(table) else (0, 0)
            if span != (header.time_window_start_ns, header.time_window_end_ns):
                self._found(
                    rules.HEADER_SPAN,
                    field="time_window_start_ns",
                    offset=12,
                    found=(header.time_window_start_ns, header.time_window_end_ns),
                    expected=span,
                )
            if index is not None:
                self._window_table(table, index)
        elif tag == sections.TAG_RECEIVE_TIMES:
            sections.receive_times_from_bytes(body, entries=header.frame_count, path=path)
        elif tag == sections.TAG_DURATIONS:
            sections.durations_from_bytes(body, entries=header.frame_count, path=path)
        elif tag == sections.TAG_META:
            sections.meta_from_bytes(body, path=path)
        elif tag == sections.TAG_DROPS:
            sections.drops_from_bytes(body, path=path)

    def _window_table(self, table: WindowTable, index: hfrm.Index) -> None:
        """Each frame's time lies in its window, and its bytes in the window's extent unless it was late."""
        for column, stream_id in enumerate(table.stream_ids.tolist()):
            rows = index[index["stream_id"] == stream_id]
            if len(rows) != int(table.count[:, column].sum(dtype=np.int64)):
                self._found(
                    rules.WINDOWS_INDEX,
                    field=f"section WNDW, stream {stream_id}",
                    found=f"{int(table.count[:, column].sum(dtype=np.int64)):,} frames",
                    expected=f"{len(rows):,} frames",
                )
                continue
            window = np.repeat(np.arange(len(table)), table.count[:, column])
            times, start = rows["timestamp_ns"].astype(np.int64), rows["byte_offset"].astype(np.int64)
            low, high = table.extent_offset[window], table.extent_offset[window] + table.extent_size[window]
            outside = (start < low) | (start + rows["byte_size"] > high)
            bad = (times < table.start_ns[window]) | (times > table.end_ns[window])
            bad |= outside & ((rows["flags"] & hfrm.LATE) == 0)
            for row in np.flatnonzero(bad)[:MAX_FINDINGS].tolist():
                self._found(
                    rules.FRAME_WINDOW,
                    field="section WNDW",
                    found=f"time {int(times[row])}, byte {int(start[row])}",
                    expected=f"window {int(window[row])}",
                    **self._frame_place(rows[row]),
                )

    def _records(self, header: hfrm.HyperframeHeader, index: hfrm.Index | None) -> hfrm.Index | None:
        """Walk the window records and compare them with the index; their entries, sorted as an index is."""
        walk = walk_records(self._source.read_at, header.index_offset, file_id=header.file_id, path=self._source.path)
        parts: list[hfrm.Index] = []
        expected = 0
        for found in walk:
            if isinstance(found, Hole):
                self._found(
                    rules.RECORDS_FOLLOW,
                    field="window record",
                    offset=found.offset,
                    end=found.end,
                    found=found.reason,
                    expected=f"record {expected}",
                )
            elif not found.last:
                self._record_number(found, expected)
                expected = found.head.window_number + 1
                parts.append(found.entries)
        self._report.checked["window records"] = len(parts)
        entries = np.concatenate(parts) if parts else np.empty(0, hfrm.INDEX_DTYPE)
        entries = entries[hfrm.index_order(entries)]
        if index is not None and index.tobytes() != entries.tobytes():
            self._compare(index, entries)
        return entries

    def _record_number(self, record: WindowRecord, expected: int) -> None:
        if record.head.window_number != expected:
            self._found(
                rules.RECORDS_COUNT,
                field="window_number",
                offset=record.offset + 32,
                found=record.head.window_number,
                expected=expected,
            )

    def _compare(self, index: hfrm.Index, recorded: hfrm.Index) -> None:
        """Frames that only the index or only the window records know, by the place of their bytes."""
        for have, other, what in ((index, recorded, "window record"), (recorded, index, "index entry")):
            missing = have[~np.isin(_rows_as_bytes(have), _rows_as_bytes(other))]
            for row in missing[:MAX_FINDINGS]:
                self._found(
                    rules.INDEX_RECORDS,
                    field=what,
                    found="none",
                    expected="an equal one",
                    **self._frame_place(row),
                )

    def _header_facts(self, header: hfrm.HyperframeHeader, entries: hfrm.Index) -> None:
        present = len(np.unique(entries["stream_id"]))
        count = header.stream_count
        if not present <= count <= max(present, len(self._streams)):
            self._found(
                rules.HEADER_STREAMS,
                field="stream_count",
                offset=32,
                found=count,
                expected=f"{present} with frames, {len(self._streams)} in the stream table",
            )

    def _places(self, header: hfrm.HyperframeHeader, entries: hfrm.Index) -> None:
        """No two frames share bytes, and none reaches into index or sections."""
        order = np.argsort(entries["byte_offset"], kind="stable")
        start = entries["byte_offset"][order].astype(np.int64)
        end = start + entries["byte_size"][order]
        reach = np.maximum.accumulate(end)
        for n in (np.flatnonzero(start[1:] < reach[:-1]) + 1)[:MAX_FINDINGS].tolist():
            self._found(
                rules.FRAME_OVERLAP,
                field="byte_offset",
                found=f"{int(start[n]):,}",
                expected=f"at least {int(reach[n - 1]):,}",
                **self._frame_place(entries[order[n]]),
            )
        after = [(header.index_offset, header.index_size), (header.sections_offset, header.sections_size)]
        for region, size in after:
            for n in np.flatnonzero((start < region + size) & (end > region) & (size > 0))[:MAX_FINDINGS].tolist():
                self._found(
                    rules.FRAME_REGION,
                    field="byte_size",
                    found=f"an end at {int(end[n]):,}",
                    expected=f"at most {region:,}",
                    **self._frame_place(entries[order[n]]),
                )

    def _payloads(self, entries: hfrm.Index, *, has_crcs: bool) -> None:
        total, done, damaged, bad_bytes = int(entries["byte_size"].sum(dtype=np.int64)), 0, 0, 0
        entries, memory = entries[np.argsort(entries["byte_offset"], kind="stable")], StepMemory(1)
        for first, last in _groups(entries):
            rows = entries[first:last]
            base = int(rows["byte_offset"][0])
            end = int((rows["byte_offset"].astype(np.int64) + rows["byte_size"]).max())
            [data] = memory.read(self._source, [(base, max(base, min(end, self._source.size)))])
            for n, (*_, offset, size, expected) in enumerate(rows.tolist()):
                done += size
                crc = isal_zlib.crc32(data[offset - base : offset - base + size])
                if has_crcs and crc != expected:
                    damaged, bad_bytes = damaged + 1, bad_bytes + size
                    if damaged <= MAX_FINDINGS:
                        self._found(
                            rules.PAYLOAD_CRC,
                            field="payload",
                            found=f"{crc:#010x}",
                            expected=f"{expected:#010x}",
                            **self._frame_place(rows[n]),
                        )
            if self._progress is not None:
                self._progress(done, total)
        self._report.checked["payload bytes"] = total
        self._report.checked["payload checksums"] = len(entries) if has_crcs else "none: a plain file"
        if damaged:
            self._report.checked["damaged frames"], self._report.checked["damaged bytes"] = damaged, bad_bytes

    def _frame_place(self, row: np.void) -> dict[str, int | str | None]:
        stream_id, offset = int(row["stream_id"]), int(row["byte_offset"])
        info = self._streams.get(stream_id)
        return {
            "offset": offset,
            "end": offset + int(row["byte_size"]),
            "sample": int(row["stream_index"]),
            "source": info.name if info else str(stream_id),
        }


def _rows_as_bytes(index: hfrm.Index) -> NDArray[np.void]:
    return np.ascontiguousarray(index).view(np.dtype((np.void, hfrm.INDEX_ENTRY_BYTES)))


def _groups(entries: hfrm.Index) -> Iterator[tuple[int, int]]:
    """Rows [first, last) in file order whose bytes one read of about 4 MB brings."""
    starts = entries["byte_offset"].astype(np.int64)
    first = 0
    while first < len(entries):
        last = max(first + 1, int(np.searchsorted(starts, int(starts[first]) + _READ_BYTES)))
        yield first, last
        first = last
