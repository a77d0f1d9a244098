"""Compares the CRC-32 that a header states with the file's data, once: what genuine files carry and nothing else does.

What was found good is remembered by file identity (storage/verified.py), so that the next start reads nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from isal import isal_zlib

from trainload.formats.progress import Progress
from trainload.images.files.volumes import read_header
from trainload.images.format import rules
from trainload.images.format.dts import DtsHeader
from trainload.storage.location import name_of, open_source
from trainload.storage.source import Source
from trainload.storage.verified import file_identity, mark_of

_READ_BYTES = 4 << 20  # stays in the processor's cache for the CRC


def check_whole_files(
    paths: Sequence[str], *, known: frozenset[str] = frozenset(), progress: Progress | None = None
) -> frozenset[str]:
    """Compare each DTS file's CRC-32 with its data, at the speed of the disk, and give the identities of the files.

    known: identities that this process has checked. progress: called with bytes of one file, done and in all; left out,
    a bar on stderr where that is a terminal. Memory: 4 MB.
    Raises ChecksumError for a file whose data are not what was written, OSError where the system cannot read.
    """
    return frozenset(_check_one(path, known, progress) for path in paths)


def _check_one(path: str, known: frozenset[str], progress: Progress | None) -> str:
    with open_source(path) as source:
        header = read_header(source)
        identity = file_identity(source.path, header.crc_code)
        if identity in known:
            return identity
        with mark_of(path) as mark:
            if mark.holds(identity):
                return identity
            shows = mark.is_shared or os.environ.get("LOCAL_RANK", "0") == "0"
            with _bar(path, shows=shows and progress is None) as bar:
                _compare(source, header, progress or bar)
            if file_identity(source.path, header.crc_code) == identity:  # it stayed as it was
                mark.write(identity)
    return identity


def _compare(source: Source, header: DtsHeader, progress: Progress | None) -> None:
    crc, start, end = 0, header.header_bytes, source.size
    buffer = np.empty(_READ_BYTES, np.uint8)
    for offset in range(start, end, _READ_BYTES):
        part = buffer[: min(_READ_BYTES, end - offset)]
        after = offset + len(part)
        source.will_need(after, min(_READ_BYTES, end - after))
        source.readinto_at(offset, part.data)
        crc = isal_zlib.crc32(part, crc)
        if progress is not None:
            progress(after - start, end - start)
    if crc != header.crc_code:
        raise rules.FILE_CRC.broken(
            field="crc_code",
            offset=start,
            found=f"{crc:#010x}",
            expected=f"{header.crc_code:#010x}",
            path=source.path,
        )


@contextmanager
def _bar(path: str, *, shows: bool) -> Iterator[Progress | None]:
    if not shows or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # 30 ms that a check without a terminal need not pay
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"checking {name_of(path)!a}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
