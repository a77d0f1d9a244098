"""The files of a tar, and of tars inside it, as names and places: nothing is unpacked, no link is followed."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from trainload.errors import FormatError, UsageError
from trainload.storage.file import FileSource


class Member(NamedTuple):
    """One regular file: its checked name, its size in bytes, and where its bytes begin in the outer archive."""

    name: str
    size: int
    place: int


def tar_members(path: str | os.PathLike[str]) -> Iterator[Member]:
    """The regular files of an uncompressed tar in its order; those of an inner `name.tar` as `name/file`.

    Links, devices and folders are passed over. Memory stays the same for any number of members. Raises UsageError for a
    compressed tar or no tar at all, FormatError for a damaged one or a name that leaves the archive's folder.
    """
    with FileSource(path) as source:
        head = source.read_at(0, min(6, source.size))
        if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
            raise UsageError(f"pictures are read from their places in the tar, so unpack the compression first: {path}")
        yield from _members(source, 0, source.size, "", Path(path))


def _members(source: FileSource, start: int, size: int, folder: str, path: Path) -> Iterator[Member]:
    try:
        archive = tarfile.TarFile(fileobj=cast("IO[bytes]", _Window(source, start, size)))
    except tarfile.TarError as error:
        raise UsageError(f"no folder and no tar ({error}): {folder or path}") from error
    with archive:
        while True:
            try:
                info = archive.next()
            except tarfile.TarError as error:
                raise FormatError(
                    "a tar's member header must be whole", field="tar header", offset=start + archive.offset,
                    found=error, expected="a header", path=os.fspath(path),
                ) from error  # fmt: skip
            if info is None:
                return
            cast("Any", archive).members.clear()  # tarfile keeps every header otherwise
            if not info.isreg() or info.issparse():
                continue
            name = _checked(info.name, start + info.offset, path)
            place = start + info.offset_data
            if info.offset_data + info.size > size:
                raise _cut(place, info.size, start + size, path)
            if name.lower().endswith(".tar") and not folder:
                yield from _members(source, place, info.size, name[:-4] + "/", path)
            else:
                yield Member(folder + name, info.size, place)


def _checked(name: str, offset: int, path: Path) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or not parts or "\0" in name:
        raise FormatError(
            "a member's name must stay below the archive's folder", field="tar name", offset=offset, found=repr(name),
            expected="a relative path without ..", path=os.fspath(path),
        )  # fmt: skip
    return "/".join(parts)


def _cut(place: int, size: int, end: int, path: Path) -> FormatError:
    return FormatError(
        "a tar's member must end inside the archive", field="tar member", offset=place, found=f"{size:,} bytes",
        expected=f"at most {end - place:,}", path=os.fspath(path),
    )  # fmt: skip


class _Window(io.RawIOBase):
    """A part of a source as the seekable file that tarfile asks for."""

    def __init__(self, source: FileSource, start: int, size: int) -> None:
        self._source, self._start, self._size, self._at = source, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        count = left if size < 0 else min(size, left)
        data = self._source.read_at(self._start + self._at, count)
        self._at += count
        return data
