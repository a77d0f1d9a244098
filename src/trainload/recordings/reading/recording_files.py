"""Which files make up one recording, and that they agree on its streams."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainload.errors import UsageError
from trainload.recordings.format import rules
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.file import HyperframeFile
from trainload.storage.location import absolute, is_url

SUFFIX = ".hfr"


def find_parts(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The files of one recording, absolute: the path itself, the listed paths, or every *.hfr in a folder, by name.

    Raises UsageError where there is none.
    """
    if not isinstance(path, str | os.PathLike):
        found = tuple(os.fspath(one) for one in path)
    elif is_url(path):
        found = (os.fspath(path),)
    elif Path(path).is_dir():
        found = tuple(sorted(str(one) for one in Path(path).iterdir() if one.suffix == SUFFIX))
    else:
        found = (os.fspath(path),)
    if not found:
        raise UsageError(f"no {SUFFIX} file in {path!r}")
    return tuple(map(absolute, found))


def join_streams(files: Sequence[HyperframeFile]) -> dict[int, StreamInfo]:
    """The streams of all parts by id. Raises FormatError where two parts mean different streams by one id or name.

    Counts and what was asked of the codec may differ from part to part; name, type and clock may not.
    """
    joined: dict[int, StreamInfo] = {}
    for file in files:
        for stream_id, info in file.streams.items():
            known = joined.setdefault(stream_id, info)
            if replace(info, codec=known.codec) != known:
                raise rules.PARTS_STREAMS.broken(
                    field=f"stream {stream_id}",
                    offset=None,
                    found=info.name,
                    expected=known.name,
                    path=file.path,
                )
    names = [info.name for info in joined.values()]
    for name in names:
        if names.count(name) > 1:
            raise rules.PARTS_NAMES.broken(
                field="stream name",
                offset=None,
                found=name,
                expected="one stream of that name",
                path=files[0].path,
            )
    return dict(sorted(joined.items()))
