"""`trainload.open_recording`: the reader for a recording, found by what the bytes say, not by the file's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainload.errors import UsageError
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.storage.containers import HYPERFRAME, AnyPath, find_files, holds_recordings, read_kind
from trainload.storage.location import access_of


def open_recording(
    path: AnyPath | Sequence[AnyPath],
    *,
    storage: Mapping[str, str] | None = None,
    cache: AnyPath | None = None,
    cache_bytes: int | str = "auto",
) -> HyperframeReader:
    """The reader for one recording: a file, its parts (a list or a pattern), or the folder of its parts.

    storage, cache, cache_bytes: of URLs, as for `trainload.open`.
    Raises UsageError for what is no recording and for a pattern that matches nothing, FormatError for bytes that are
    no container, OSError where the system cannot open a file.
    """
    paths = find_files(path, access_of(storage, cache, cache_bytes))
    if not holds_recordings(paths[0]) and read_kind(paths[0]) != HYPERFRAME:
        raise UsageError(f"this is no recording (.hfr): {paths[0]}")
    return HyperframeReader(paths[0] if len(paths) == 1 else paths)
