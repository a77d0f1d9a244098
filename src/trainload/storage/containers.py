"""Which files a path names, and which container each of them is, by its first bytes."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainload.errors import RemoteError, UsageError
from trainload.formats.rules import FILE_MAGIC
from trainload.storage.location import Access, Url, is_url, open_source, pinned

AnyPath = str | os.PathLike[str]

HYPERFRAME = "HFRM"  # what `read_kind` calls a recording; a DTS file is called by its dataset type
_DTS_MAGIC, _HYPERFRAME_MAGIC = b".DTS", b"HFRM"
_DATASET_TYPE = slice(8, 16)  # docs/spec/dts.md, section 2
_HEAD_BYTES = 16
SUFFIXES = (".dts", ".hfr")


def find_files(path: AnyPath | Sequence[AnyPath], access: Access | None = None) -> list[str]:
    """The files that a path, a list of paths or a pattern names, sorted. Raises UsageError for none.

    Of a bucket: the objects that a pattern names, or that lie right under a URL with a final `/`. access: how they are
    read; the URLs that are given carry it.
    """
    if not isinstance(path, str | os.PathLike):
        found = [name for one in path for name in find_files(one, access)]
        if not found:
            raise UsageError("no path was given")
        return found
    name = os.fspath(path)
    if is_url(name):
        return _find_objects(name if isinstance(name, Url) else Url(name, access))
    if glob.has_magic(name) and not Path(name).exists():
        matches = sorted(glob.glob(name))  # noqa: PTH207 (a pattern may be absolute, Path.glob refuses those)
        if not matches:
            raise UsageError(f"the pattern matches no file: {name}")
        return matches
    return [name]


def _find_objects(url: Url) -> list[str]:
    from trainload.storage.objects import is_pattern, listed
    from trainload.storage.set_manifest import ENDING, read_manifest

    if url.endswith(ENDING):
        return read_manifest(url)
    if not is_pattern(url):
        return _object_or_set(url)
    found = [each for each in listed(url) if not url.endswith("/") or each.endswith(SUFFIXES)]
    if not found:
        raise UsageError(f"the bucket has no object of that name: {url}")
    shared = replace(url.access, shares=len(found))
    return [Url(each, shared) for each in found]


def _object_or_set(url: Url) -> list[str]:
    """The object, pinned; where there is none, the volumes of the set that was packed under its name."""
    from trainload.storage.set_manifest import ENDING, read_manifest

    try:
        return [pinned(url)]
    except RemoteError:
        stem, dot, suffix = url.rpartition(".")
        if not dot or "/" in suffix or not url.startswith("s3://"):
            raise
        try:
            return read_manifest(Url(stem + ENDING, url.access))
        except RemoteError:
            pass
        raise


def read_kind(path: str) -> str:
    """What a file is by its first bytes: HYPERFRAME, or a DTS file's dataset type. Raises FormatError for others."""
    with open_source(path) as source:
        head = source.read_at(0, min(_HEAD_BYTES, source.size))
    if head[:4] == _HYPERFRAME_MAGIC:
        return HYPERFRAME
    if head[:4] == _DTS_MAGIC:
        return head[_DATASET_TYPE].decode("latin-1").lstrip(" ")
    raise FILE_MAGIC.broken(
        field="magic",
        offset=0,
        found=head[:4],
        expected="b'.DTS' or b'HFRM'",
        path=path,
    )


def holds_recordings(path: str) -> bool:
    """True for a folder of the parts of a recording, which is no folder of class folders."""
    return not is_url(path) and Path(path).is_dir() and any(Path(path).glob("*.hfr"))
