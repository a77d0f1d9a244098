"""Reads one picture of a source by a small locator, the part of a source that goes to the workers: it loads little."""

from __future__ import annotations

import os
from dataclasses import dataclass

from trainload.images.format import rules
from trainload.storage.file import FileSource
from trainload.storage.location import Url

Locator = tuple[bytes, int, int]  # path below the root (folders), place in the archive (tars), size in bytes


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """Reads pictures of a folder; pickles as its path."""

    path: str

    def read(self, locator: Locator) -> bytes:
        """The whole file. Raises OSError, or FormatError where it is no longer as long as it was."""
        path = os.fsdecode(os.fsencode(self.path) + b"/" + locator[0])
        with FileSource(path) as source:
            if source.size != locator[2]:
                raise rules.SOURCE_CHANGED.broken(
                    field="file size",
                    offset=None,
                    found=f"{source.size:,} bytes",
                    expected=f"{locator[2]:,} bytes",
                    path=path,
                )
            return source.read_at(0, locator[2])


@dataclass(frozen=True, slots=True)
class FlatFiles:
    """Reads pictures that lie in a folder without class folders, by `class/name`; pickles as its path."""

    path: str

    def read(self, locator: Locator) -> bytes:
        """As `FolderFiles.read`."""
        name, place, size = locator
        return FolderFiles(self.path).read((name.partition(b"/")[2], place, size))


@dataclass(frozen=True, slots=True)
class ObjectFiles:
    """Reads pictures below a URL that ends with `/`; pickles as it, with what it takes to read it."""

    path: Url

    def read(self, locator: Locator) -> bytes:
        """The whole object. Raises RemoteError, also where it is no longer as long as it was."""
        from trainload.storage.remote import read_object  # the extra trainload[remote]

        name = locator[0].decode("utf-8")
        return read_object(Url(f"{self.path}{name}", self.path.access), locator[2])

    def below(self, folder: str) -> ObjectFiles:
        """Those of a folder, which ends with `/`; "" is this one."""
        return ObjectFiles(Url(f"{self.path}{folder}", self.path.access))


class TarFiles:
    """Reads pictures of a tar at their places, nothing is unpacked; pickles as its path."""

    def __init__(self, path: str) -> None:
        self._source = FileSource(path)

    @property
    def path(self) -> str:
        return self._source.path

    def read(self, locator: Locator) -> bytes:
        return self._source.read_at(locator[1], locator[2])

    def __reduce__(self) -> tuple[type[TarFiles], tuple[str]]:
        return TarFiles, (self._source.path,)


Files = FolderFiles | FlatFiles | ObjectFiles | TarFiles
