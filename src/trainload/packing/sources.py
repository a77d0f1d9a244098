"""Where pictures come from: class folders, a tar of them, a tar of class tars; as one compact table, no pixel read.

A source has one split, or `train` and `val` (or one of the two) at its top and nothing beside them. Pictures are known
by their names' endings (PICTURE_ENDINGS, any case); what they really are is for packing.levels to find out. The list is
in the spec's order: classes by name, then all pictures by file name, stable (docs/spec/dts.md, section 5).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.packing.source_files import Files, FolderFiles, Locator, TarFiles
from trainload.packing.source_tar import tar_members

PICTURE_ENDINGS = (".jpeg", ".jpg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
REFERENCE_ENDINGS = (".jpeg",)  # the genuine exporter looks at nothing else
SPLITS = ("train", "val")


class Names:
    """Many byte strings in one buffer: a million of them cost no Python objects."""

    def __init__(self, names: Iterable[bytes]) -> None:
        ends = array("q", (0,))
        blob = bytearray()
        for name in names:
            blob += name
            ends.append(len(blob))
        self.blob = bytes(blob)
        self._ends = np.array(ends, np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, n: int) -> bytes:
        return self.blob[self._ends[n] : self._ends[n + 1]]


@dataclass(frozen=True, slots=True)
class PictureTable:
    """One split of a source, in the spec's order.

    names: path of each picture below the split's root, `class/file`. labels: int32. sizes: int64, bytes of each file.
    places: int64, offset of each picture in the archive, or None for folders. ignored: files without a picture's name.
    """

    files: Files
    class_names: tuple[str, ...]
    names: Names
    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    places: NDArray[np.int64] | None
    ignored: int

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, n: int) -> str:
        return os.fsdecode(self.names[n])

    def locator(self, n: int) -> Locator:
        place = -1 if self.places is None else int(self.places[n])
        return (self.names[n] if place < 0 else b"", place, int(self.sizes[n]))


def open_source(path: str | os.PathLike[str], *, reference: bool = False) -> dict[str, PictureTable]:
    """The tables of a source: {"": table} for one split, {"train": ..., "val": ...} where it has both.

    Raises UsageError where nothing there looks like classes of pictures, OSError where it cannot be read, FormatError
    for a damaged tar.
    """
    path = Path(path)
    endings = REFERENCE_ENDINGS if reference else PICTURE_ENDINGS
    if path.is_dir():
        tables = _open_folder(path, endings)
    else:
        tables = _open_tar(path, endings)
    if not any(len(table) for table in tables.values()):
        looked_for = ", ".join("*" + ending for ending in endings)
        raise UsageError(f"there are no classes of pictures ({looked_for}) in {path}")
    return _with_common_classes(tables)


def _with_common_classes(tables: dict[str, PictureTable]) -> dict[str, PictureTable]:
    """Both splits with the labels of all classes that either has, so that one number means one class."""
    names = sorted({name for table in tables.values() for name in table.class_names})
    label_of = {name: n for n, name in enumerate(names)}
    common = {}
    for split, table in tables.items():
        new = np.array([label_of[name] for name in table.class_names], np.int32)
        common[split] = PictureTable(
            table.files, tuple(names), table.names, new[table.labels], table.sizes, table.places, table.ignored
        )
    return common


class _Rows:
    """Files as they are met, in any order: names, sizes, places; `table` puts them into the spec's order."""

    def __init__(self, endings: Sequence[str]) -> None:
        self.endings = endings
        self.names: list[bytes] = []
        self.sizes = array("q")
        self.places = array("q")
        self.ignored = 0

    def add(self, name: str, size: int, place: int = -1) -> None:
        raw = os.fsencode(name)
        if b"/" in raw and name.lower().endswith(tuple(self.endings)):
            self.names.append(raw)
            self.sizes.append(size)
            self.places.append(place)
        else:
            self.ignored += 1

    def below(self, prefix: bytes, skip: int) -> _Rows:
        """The rows whose names go on with `prefix` after `skip` bytes, without both; those in no folder are ignored."""
        rows = _Rows(self.endings)
        rows.ignored = self.ignored
        for name, size, place in zip(self.names, self.sizes, self.places):
            if name.startswith(prefix, skip):
                rows.add(os.fsdecode(name[skip + len(prefix) :]), size, place)
        return rows

    def table(self, files: Files, classes: Iterable[str]) -> PictureTable:
        """The rows in the spec's order; a class is a folder of `classes` or one that a name begins with."""
        names = self.names
        order = sorted(range(len(names)), key=lambda n: names[n].replace(b"/", b"\0"))
        order.sort(key=lambda n: names[n].rpartition(b"/")[2])
        class_names = sorted({*classes, *(os.fsdecode(name) for name in {name.partition(b"/")[0] for name in names})})
        label_of = {os.fsencode(name): label for label, name in enumerate(class_names)}
        labels = np.fromiter((label_of[names[n].partition(b"/")[0]] for n in order), np.int32, len(order))
        places = np.array(self.places, np.int64)[order] if isinstance(files, TarFiles) else None
        sizes = np.array(self.sizes, np.int64)[order]
        return PictureTable(
            files, tuple(class_names), Names(names[n] for n in order), labels, sizes, places, self.ignored
        )


# ---- folders -------------------------------------------------------------------------------------------------------


def _open_folder(root: Path, endings: Sequence[str]) -> dict[str, PictureTable]:
    folders = {entry.name for entry in os.scandir(root) if entry.is_dir()}
    if folders and folders <= set(SPLITS):
        return {split: _folder_table(root / split, endings) for split in SPLITS if split in folders}
    return {"": _folder_table(root, endings)}


def _folder_table(root: Path, endings: Sequence[str]) -> PictureTable:
    classes = [entry.name for entry in os.scandir(root) if entry.is_dir()]
    rows = _Rows(endings)
    for name in classes:
        for file, size in _files_below(root / name, name):
            rows.add(file, size)
    return rows.table(FolderFiles(os.fspath(root)), classes)


def _files_below(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    """(path below the root, size) of every file below `folder`; links to folders are not followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(folder / entry.name, f"{prefix}/{entry.name}")
            elif entry.is_file():
                yield f"{prefix}/{entry.name}", entry.stat().st_size


# ---- tars ----------------------------------------------------------------------------------------------------------


def _open_tar(path: Path, endings: Sequence[str]) -> dict[str, PictureTable]:
    """One pass over the member headers; the folders that all names share are not part of the names."""
    rows = _Rows(endings)
    for member in tar_members(path):
        rows.add(member.name, member.size, member.place)
    files = TarFiles(os.fspath(path))
    skip = 0
    while tops := {name[skip:].partition(b"/")[0] for name in rows.names}:
        if tops <= {split.encode() for split in SPLITS}:
            splits = [split for split in SPLITS if split.encode() in tops]
            return {split: rows.below(f"{split}/".encode(), skip).table(files, ()) for split in splits}
        if len(tops) > 1 or any(name.count(b"/", skip) < 2 for name in rows.names):
            break
        skip += len(tops.pop()) + 1
    return {"": rows.below(b"", skip).table(files, ())}
