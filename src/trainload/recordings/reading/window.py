"""One window (hyperframe) in memory: the frames of all streams over a span of time, as views of one read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import partial
from operator import itemgetter
from typing import cast

from trainload.formats.printable import printable
from trainload.recordings.format.hyperframe import BYTE_SIZE, FLAGS, Entry, Index
from trainload.recordings.format.payload import takes_long
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.frame import Frame, PayloadFile, open_frame
from trainload.recordings.reading.frame_reads import StoredBytes
from trainload.running.helpers import Helpers, Task

_timestamp = itemgetter(Frame._fields.index("timestamp_ns"))


class Window(Mapping[str, tuple[Frame, ...]]):
    """The frames of window `number`, by stream name: `window["lidar/top"]` is a tuple of Frames in time order.

    start_ns, end_ns: the span, both ends included. A stream of the recording that is silent here gives (), and is not
    `in` the window. The bytes were read when the window was made; frames are made, checked and unpacked when they are
    asked for. Raises FormatError then for a damaged frame, KeyError for a name that the recording does not have.
    """

    __slots__ = ("_begun", "_bytes", "_entries", "_file", "_frames", "_infos", "end_ns", "number", "start_ns")

    def __init__(
        self,
        number: int,
        start_ns: int,
        end_ns: int,
        file: PayloadFile,
        infos: Mapping[str, StreamInfo],
        entries: dict[str, Index],
        data: StoredBytes,
    ) -> None:
        self.number = number
        self.start_ns = start_ns
        self.end_ns = end_ns
        self._file = file
        self._infos = infos
        self._entries = entries
        self._bytes = data
        self._frames: dict[str, tuple[Frame, ...]] = {}
        self._begun: dict[str, Task[tuple[Frame, ...]]] = {}

    def __getitem__(self, stream: str) -> tuple[Frame, ...]:
        made = self._frames.get(stream)
        if made is None:
            task = self._begun.pop(stream, None)
            made = self._frames[stream] = self._make(stream) if task is None else task.result()
        return made

    def _make(self, stream: str) -> tuple[Frame, ...]:
        info = self._infos[stream]
        entries: list[Entry] = self._entries[stream].tolist() if stream in self._entries else []
        return tuple([open_frame(entry, self._bytes.stored(entry), info, self._file) for entry in entries])

    @property
    def taken(self) -> Set[str]:
        """The streams that were asked for so far."""
        return self._frames.keys()

    def begin(self, streams: Iterable[str], helpers: Helpers) -> None:
        """Have those of `streams` made by helpers that take long to unpack; `[stream]` waits for them as it must."""
        for stream in streams:
            if stream in self._begun or stream in self._frames or stream not in self._entries:
                continue
            entries = self._entries[stream]
            first = cast("Entry", entries.item(0))
            if takes_long(first[FLAGS], first[BYTE_SIZE] * len(entries)):
                self._begun[stream] = helpers.submit(partial(self._make, stream))

    def __contains__(self, stream: object) -> bool:
        return stream in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def count(self, stream: str) -> int:
        """How many frames of a stream the window has, without making them."""
        return len(self._entries[stream]) if stream in self._entries else 0

    def frame(self, stream: str, n: int) -> Frame:
        """Frame `n` of a stream, made anew each time: nothing of it stays with the window."""
        entry: Entry = self._entries[stream][n].item()
        return open_frame(entry, self._bytes.stored(entry), self._infos[stream], self._file)

    def frames(self) -> list[Frame]:
        """All frames of the window in time order; of equal times, the stream with the smaller id first."""
        every = [frame for stream in self for frame in self[stream]]
        every.sort(key=_timestamp)
        return every

    def __repr__(self) -> str:
        counts = ", ".join(f"{printable(stream)}: {len(entries)}" for stream, entries in self._entries.items())
        return f"Window({self.number}, {self.start_ns} to {self.end_ns} ns, {{{counts}}})"
