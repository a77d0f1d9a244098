"""The index of a finished recording that was damaged elsewhere: it still names the frames whose record is lost."""

from __future__ import annotations

import numpy as np

from trainload.errors import FormatError
from trainload.recordings.format import hyperframe as hfrm
from trainload.recordings.format.records import Hole, Section
from trainload.recordings.format.sections import TAG_WINDOWS
from trainload.recordings.recovering.file_tables import SIDE_BYTES, FileTables
from trainload.recordings.recovering.record_frames import SideValues
from trainload.storage.file import FileSource


class IntactIndex:
    """What a file still has of index and sections; never an error. found: False where either is damaged or missing.

    sections: those that are not arrays over the index.
    """

    def __init__(self, source: FileSource) -> None:
        self._path = source.path
        try:
            self._tables: FileTables | None = FileTables(source)
        except FormatError:
            self._tables = None
        self.found = self._tables is not None
        self.sections: list[Section] = []
        if self._tables is not None:
            kept = [place for place in self._tables.sections if place[0] not in (*SIDE_BYTES, TAG_WINDOWS)]
            self.sections = [(tag, source.read_at(offset, size)) for tag, offset, size in kept]

    def inside(self, hole: Hole) -> tuple[hfrm.Index, SideValues]:
        """The frames that lie in a hole, by time."""
        entries: list[hfrm.Index] = [np.empty(0, hfrm.INDEX_DTYPE)]
        side = [SideValues.from_sections({}, entries=0, path=self._path)]
        for first, rows in self._tables.index() if self._tables is not None else ():
            offsets, sizes = rows["byte_offset"], rows["byte_size"]
            lost = np.flatnonzero((offsets >= hole.offset) & (offsets + sizes <= hole.end))
            if len(lost) and self._tables is not None:
                entries.append(rows[lost])
                side.append(self._tables.side(first, len(rows))[lost])
        found, values = np.concatenate(entries), SideValues.joined(side)
        order = np.argsort(found["timestamp_ns"], kind="stable")
        return found[order], values[order]
