"""The members of a tar, and of tars inside it, as names and places: nothing is unpacked, names are labels."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from enum import Enum, auto
from typing import IO, Any, NamedTuple, cast

from trainload.errors import FormatError, TrainloadError, UsageError
from trainload.images.format import rules
from trainload.storage.file import FileSource

MAX_HEADER_BYTES = 16 << 20  # of one member: long names and what pax headers say besides


class MemberKind(Enum):
    FILE = auto()
    FOLDER = auto()
    SYMBOLIC_LINK = auto()
    HARD_LINK = auto()
    SPARSE = auto()
    SPECIAL = auto()


class Member(NamedTuple):
    """One member: its checked name ("" for the archive's own folder), size in bytes, where its bytes begin in the outer
    archive; of a link where it leads: a path from the archive's top, or from the link's folder (symbolic)."""

    name: str
    kind: MemberKind
    size: int = 0
    place: int = -1
    target: str = ""


def tar_members(path: str | os.PathLike[str]) -> Iterator[Member]:
    """The members of an uncompressed tar in its order; those of an inner `name.tar` as `name/member`.

    Memory stays the same for any number of members. Raises UsageError for a compressed tar or no tar at all,
    FormatError for a damaged one or a name that leaves the archive's folder.
    """
    with FileSource(path) as source:
        head = source.read_at(0, min(6, source.size))
        if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
            raise UsageError(f"pictures are read from their places in the tar, so unpack the compression first: {path}")
        yield from _Archive(source, 0, source.size, "").members()


class _Archive:
    """A tar that fills a part of a file; `folder` goes before its names."""

    def __init__(self, source: FileSource, start: int, size: int, folder: str) -> None:
        self._source = source
        self._start = start
        self._size = size
        self._folder = folder
        try:
            self._tar = tarfile.TarFile(fileobj=cast("IO[bytes]", _Window(source, start, size)))
        except tarfile.TarError as error:
            raise UsageError(f"no folder and no tar ({error}): {folder or source.path}") from error
        except (TrainloadError, OSError):
            raise
        except Exception as error:  # what tarfile makes of hostile numbers is of many types
            raise self._broken(error) from error

    def members(self) -> Iterator[Member]:
        with self._tar:
            while info := self._next():
                name = self._checked(info.name, info.offset)
                member = Member(self._folder + name if name else self._folder.rstrip("/"), _kind_of(info))
                if member.kind is MemberKind.FILE:
                    yield from self._file(member, info)
                elif member.kind in (MemberKind.SYMBOLIC_LINK, MemberKind.HARD_LINK):
                    outer = self._folder if member.kind is MemberKind.HARD_LINK else ""
                    yield member._replace(target=outer + info.linkname)
                else:
                    yield member

    def _file(self, member: Member, info: tarfile.TarInfo) -> Iterator[Member]:
        place = self._start + info.offset_data
        if info.offset_data + info.size > self._size:
            raise rules.TAR_END.broken(
                field="tar member",
                offset=place,
                found=f"{info.size:,} bytes",
                expected=f"at most {self._size - info.offset_data:,}",
                path=self._source.path,
            )
        if member.name.lower().endswith(".tar") and not self._folder:
            folder = member.name[:-4]
            yield Member(folder, MemberKind.FOLDER)
            yield from _Archive(self._source, place, info.size, folder + "/").members()
        else:
            yield member._replace(size=info.size, place=place)

    def _next(self) -> tarfile.TarInfo | None:
        """The next header. Raises FormatError for a damaged one and for a size that leads backwards."""
        try:
            info = self._tar.next()
        except (TrainloadError, OSError):
            raise
        except Exception as error:
            raise self._broken(error) from error
        if info is None:
            self._check_end()
            return None
        cast("Any", self._tar).members.clear()  # tarfile keeps every header otherwise
        if info.size < 0 or self._tar.offset <= info.offset:
            raise self._broken(f"a size of {info.size:,} bytes")
        return info

    def _check_end(self) -> None:
        """Raise FormatError where tarfile stopped at something that is no end: it takes a damaged header for one."""
        at = self._tar.offset
        left = self._source.read_at(self._start + at, max(0, min(tarfile.BLOCKSIZE, self._size - at)))
        if any(left):
            raise self._broken("bytes that are no header")

    def _broken(self, found: object) -> FormatError:
        offset = self._start + self._tar.offset if hasattr(self, "_tar") else self._start
        return rules.TAR_HEADER.broken(
            field="tar header",
            offset=offset,
            found=found,
            expected="a header",
            path=self._source.path,
        )

    def _checked(self, name: str, offset: int) -> str:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise rules.TAR_NAME.broken(
                field="tar name",
                offset=self._start + offset,
                found=repr(name),
                expected="a relative path without ..",
                path=self._source.path,
            )
        return "/".join(parts)


def _kind_of(info: tarfile.TarInfo) -> MemberKind:
    if info.isreg():
        return MemberKind.SPARSE if info.issparse() else MemberKind.FILE
    if info.isdir():
        return MemberKind.FOLDER
    if info.issym() or info.islnk():
        return MemberKind.SYMBOLIC_LINK if info.issym() else MemberKind.HARD_LINK
    return MemberKind.SPECIAL


class _Window(io.RawIOBase):
    """A part of a source as the seekable file that tarfile asks for; it reads headers only."""

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
        if count > MAX_HEADER_BYTES:
            raise rules.TAR_HEADER_LIMIT.broken(
                field="tar header",
                offset=self._start + self._at,
                found=f"{count:,} bytes",
                expected=f"at most {MAX_HEADER_BYTES:,}",
                path=self._source.path,
            )
        data = self._source.read_at(self._start + self._at, count)
        self._at += count
        return data
