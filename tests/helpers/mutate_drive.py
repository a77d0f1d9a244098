"""Mutated HFRM files against the whole reading side: each gives values or a FormatError, in bounded memory and time.

Run as a script (MUTATIONS, SEED, FOLDER) in a process of its own: it limits its memory to 256 MB above what the imports
need, so that an allocation by a number from a file fails here. Half of the mutated headers, indexes, sections and
records get their checksums right again, so that the checks behind the checksums are met too.
"""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import struct
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from isal import isal_zlib

from drive_data import write_drive
from published_writer import PublishedWriter
from trainload.errors import FormatError, SampleError
from trainload.formats.sections import HEAD_BYTES
from trainload.recordings.checking.hyperframe import verify_hyperframe
from trainload.recordings.format.hyperframe import HEADER_BYTES, INDEX_ENTRY_BYTES, HyperframeHeader
from trainload.recordings.format.records import SYNC_WORD
from trainload.recordings.reading.follow import Follower
from trainload.recordings.reading.hyperframe import HyperframeReader

MEMORY_BYTES = 256 << 20
SECONDS_PER_FILE = 20  # of a file that takes about 2 ms
ODD = [
    0,
    1,
    2,
    63,
    64,
    511,
    512,
    513,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]
HEADER_FIELDS = [
    (4, 2),
    (6, 2),
    (8, 4),
    (12, 8),
    (20, 8),
    (28, 4),
    (32, 4),
    (36, 8),
    (44, 8),
    (52, 8),
    (60, 8),
    (68, 8),
    (92, 4),
    (96, 2),
]
ENTRY_FIELDS = [(0, 2), (2, 2), (4, 4), (8, 8), (16, 8), (24, 4), (28, 4)]


class Mutator:
    """Makes damaged variants of one good file; the same seed makes the same ones."""

    def __init__(self, good: bytes, seed: int) -> None:
        self.good = good
        self._random = random.Random(seed)
        self._header = HyperframeHeader.from_bytes(good[:HEADER_BYTES], file_size=len(good))
        self._records = _places_of(good, SYNC_WORD)

    def next(self) -> tuple[str, bytes]:
        """The name of a mutation and the mutated file."""
        kinds: list[Callable[[bytearray], None]] = [
            self._bits,
            self._header_field,
            self._header_field,
            self._index_field,
            self._index_field,
            self._truncated,
            self._overwritten,
            self._longer,
        ]
        if not self._header.plain:
            kinds += [self._section, self._section, self._record]
        kind = self._random.choice(kinds)
        data = bytearray(self.good)
        for _ in range(self._random.choice((1, 1, 1, 2, 5))):
            kind(data)
        return kind.__name__, bytes(data)

    def _odd(self, data: bytearray) -> int:
        near = self._random.choice((len(data), self._header.index_offset, self._header.sections_offset))
        return self._random.choice((*ODD, near, near - 1, near + 1, near - 32, self._random.getrandbits(64)))

    def _put(self, data: bytearray, place: int, size: int) -> None:
        value = self._odd(data) & ((1 << 8 * size) - 1)
        data[place : place + size] = value.to_bytes(size, "little")

    def _seal_header(self, data: bytearray) -> None:
        if self._random.random() < 0.8:
            struct.pack_into("<I", data, 508, isal_zlib.crc32(bytes(data[:508])))

    def _bits(self, data: bytearray) -> None:
        data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)

    def _header_field(self, data: bytearray) -> None:
        self._put(data, *self._random.choice(HEADER_FIELDS))
        self._seal_header(data)

    def _index_field(self, data: bytearray) -> None:
        header = self._header
        entry = header.index_offset + self._random.randrange(header.frame_count) * INDEX_ENTRY_BYTES
        place, size = self._random.choice(ENTRY_FIELDS)
        self._put(data, entry + place, size)
        index = bytes(data[header.index_offset : header.index_offset + header.index_size])
        struct.pack_into("<I", data, 92, isal_zlib.crc32(index))
        self._seal_header(data)

    def _section(self, data: bytearray) -> None:
        at, end = self._header.sections_offset, self._header.sections_offset + self._header.sections_size
        sections = []
        while at < end:
            size = struct.unpack_from("<Q", self.good, at + 4)[0]
            sections.append((at, size))
            at += HEAD_BYTES + size
        at, size = self._random.choice(sections)
        if self._random.random() < 0.2:
            self._put(data, *self._random.choice(((at, 4), (at + 4, 8), (at + 12, 4))))
            return
        body = at + HEAD_BYTES
        if self._random.random() < 0.5:
            self._put(data, body + 4 * self._random.randrange(max(1, size // 4)), 4)
        else:
            data[body + self._random.randrange(size)] = self._random.choice(b'0179"{}[],:-\\ \0\xff')
        struct.pack_into("<I", data, at + 12, isal_zlib.crc32(bytes(data[body : body + size])))

    def _record(self, data: bytearray) -> None:
        at = self._random.choice(self._records)
        self._put(data, at + self._random.randrange(16, 80, 4), self._random.choice((4, 8)))
        struct.pack_into("<I", data, at + 76, isal_zlib.crc32(bytes(data[at : at + 76])))

    def _truncated(self, data: bytearray) -> None:
        del data[self._random.randrange(len(data)) :]
        data += bytes(max(0, 1 - len(data)))

    def _overwritten(self, data: bytearray) -> None:
        start, count = self._random.randrange(len(data)), self._random.choice((4, 64, 4096))
        fill = self._random.choice((bytes(count), self._random.randbytes(count), self.good[:count]))
        data[start : start + count] = fill[: len(data) - start]

    def _longer(self, data: bytearray) -> None:
        data += self._random.choice((bytes(64), self.good[512:4096], self.good))


def _places_of(data: bytes, word: bytes) -> list[int]:
    places, at = [], data.find(word)
    while at >= 0:
        places.append(at)
        at = data.find(word, at + 1)
    return places


def use_everything(path: Path) -> None:
    """Every way of reading a recording. Raises whatever is neither a value nor a FormatError."""
    verify_hyperframe(path)
    for step in (_use_reader, _use_follower):
        try:
            step(path)
        except FormatError:
            continue


def _use_reader(path: Path) -> None:
    with HyperframeReader(path) as reader:
        for name in reader.streams:
            for use in (_use_stream, _use_columns):
                try:
                    use(reader, name)
                except (FormatError, SampleError):
                    continue
        with contextlib.suppress(FormatError):
            reader.facts()
        for window in reader.windows(0, len(reader)) if len(reader) else ():
            for name in reader.streams:
                try:
                    sum(len(frame.data) for frame in window[name])
                except FormatError:
                    continue
        for frame in reader.frames(list(reader.streams)[:1]):
            len(frame.data)


def _use_stream(reader: HyperframeReader, name: str) -> None:
    times = reader.timestamps(name)
    for time in (0, int(times[len(times) // 2]) if len(times) else 0, (1 << 63) - 1):
        for read in (reader.read, reader.read_before, reader.read_nearest, reader.read_at):
            frame = read(name, time)
            if frame is not None:
                frame.array()
    for frame in reader.iter_range(name, 0, (1 << 63) - 1):
        frame.array()


def _use_columns(reader: HyperframeReader, name: str) -> None:
    reader.flags(name), reader.stream_index(name), reader.sizes(name)
    reader.durations(name), reader.receive_times(name)


def _use_follower(path: Path) -> None:
    with Follower(path) as follower:
        for window in follower.ready():
            for name in window:
                sum(len(frame.data) for frame in window[name])


def _write_plain(path: Path) -> Path:
    writer = PublishedWriter(path)
    for n in range(60):
        writer.append(n % 3, 5_000_000 * n + n % 3, bytes([n]) * (37 * n), flags=3)
    writer.finalize()
    return path


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES,) * 2)


def main(mutations: int, seed: int, folder: Path) -> int:
    """Use so many mutated files; prints what happened; 1 where anything but a value or a FormatError came out."""
    good = [write_drive(folder / f"{codec}.hfr", seconds=0.3, codec=codec).path for codec in ("lz4", "zstd")]
    good.append(_write_plain(folder / "plain.hfr"))
    for path in good:
        use_everything(path)
    mutators = [Mutator(path.read_bytes(), seed) for path in good]
    _limit_memory()
    bad: Counter[str] = Counter()
    path = folder / "mutated.hfr"
    for n in range(mutations):
        kind, data = mutators[n % len(mutators)].next()
        path.write_bytes(data)
        signal.alarm(SECONDS_PER_FILE)  # ends the process: a hang is a failure
        try:
            use_everything(path)
        except Exception:
            bad[kind] += 1
            if sum(bad.values()) <= 5:
                (folder / f"bad_{n}.hfr").write_bytes(data)
                print(f"mutation {n} ({kind}):\n{traceback.format_exc()}")
        signal.alarm(0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{mutations} mutated files, {sum(bad.values())} bad {dict(bad)}, peak {peak} MB")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
