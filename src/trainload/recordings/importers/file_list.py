"""Many files of one folder, at some 50 bytes each: names as one numpy array, a path only when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 4096
Names = NDArray[np.bytes_]


@dataclass(frozen=True, slots=True)
class FileList:
    """Files under `folder`. names: S[n], their paths relative to it, as the file system's bytes."""

    folder: Path
    names: Names

    def __len__(self) -> int:
        return len(self.names)

    def path(self, index: int) -> str:
        """Where file `index` lies. No Path: pathlib interns the name of every one that is made."""
        return f"{self.folder}/{os.fsdecode(self.names[index])}"

    def name(self, index: int) -> str:
        """The name of file `index`, without its folders."""
        return os.fsdecode(self.names[index]).rpartition("/")[2]

    def take(self, which: NDArray[Any]) -> FileList:
        """The files at these positions, or where a mask is true."""
        return FileList(self.folder, self.names[which])

    @property
    def extension(self) -> str:
        """Of the first file, in small letters, with its dot; "" without files."""
        return extension_of(self.name(0)) if len(self) else ""


def base_name(path: str) -> str:
    """The last part of a path that a list of files gives: the file is looked for in the list's own folder."""
    return path.rpartition("/")[2]


def extension_of(name: str) -> str:
    """The extension of a file's name, in small letters, with its dot."""
    base = base_name(name)
    dot = base.rfind(".")
    return base[dot:].lower() if dot > 0 else ""


class NameArray:
    """Names that come one by one, collected with little memory."""

    def __init__(self) -> None:
        self._chunks: list[Names] = []
        self._last: list[bytes] = []

    def append(self, name: str) -> None:
        self._last.append(os.fsencode(name))
        if len(self._last) == _CHUNK:
            self._chunks.append(np.array(self._last))
            self._last.clear()

    def array(self) -> Names:
        """S[n]; the collection is empty afterwards."""
        chunks = [*self._chunks, np.array(self._last, np.bytes_)]
        self._chunks, self._last = [], []
        return np.concatenate(chunks)


def name_array(names: Iterable[str]) -> Names:
    """S[n] of these names."""
    found = NameArray()
    for name in names:
        found.append(name)
    return found.array()


def listed_files(folder: Path, keep: Callable[[str], bool] = lambda name: True) -> FileList:
    """The files (not folders) of `folder` whose name `keep` wants, by name."""
    names = name_array(entry.name for entry in _entries(folder) if keep(entry.name) and entry.is_file())
    names.sort()
    return FileList(folder, names)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def listed_folders(folder: Path) -> list[str]:
    """The names of the folders in `folder`, in order."""
    return sorted(entry.name for entry in _entries(folder) if entry.is_dir())


def all_files(root: Path) -> Iterator[str]:
    """The path of every file below `root`, relative to it, in no order; a folder that is linked twice comes once."""
    waiting, seen = [""], set()
    while waiting:
        below = waiting.pop()
        for entry in _entries(root / below):
            name = f"{below}/{entry.name}" if below else entry.name
            if not entry.is_dir():
                if entry.is_file():
                    yield name
                continue
            about = entry.stat()
            if (about.st_dev, about.st_ino) not in seen:
                seen.add((about.st_dev, about.st_ino))
                waiting.append(name)
