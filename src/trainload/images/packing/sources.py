"""Where pictures come from: class folders, a tar of them, a tar of class tars, class folders of a bucket; as one
compact table, no pixel read.

A source has one split, or `train` and `val` (or one of the two) at its top and nothing beside them, or is a folder of
ImageNet's archives. One split, of two `val`, may have a list of labels in the place of class folders. Pictures are
known by their names' endings (PICTURE_ENDINGS, any case); what they really are is for packing.levels to find out. The
list is in the spec's order (docs/spec/dts.md, section 5).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.picture_kinds import PICTURE_ENDINGS, REFERENCE_ENDINGS
from trainload.images.classes import left_out as reasons
from trainload.images.classes.class_list import ClassList, some
from trainload.images.classes.left_out import LeftOut, lines_of
from trainload.images.classes.picture_rows import PictureRows, empty_classes
from trainload.images.classes.walk import ClassFolders
from trainload.images.packing.flat_source import Labels, flat_folder, flat_tar
from trainload.images.packing.label_list import LabelList
from trainload.images.packing.official_archives import beside, official_parts
from trainload.images.packing.source_files import Files, FolderFiles, Locator, ObjectFiles, TarFiles
from trainload.images.packing.tar_rows import TarRows
from trainload.storage.location import OBJECT_SCHEMES, Url, is_url


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

    @staticmethod
    def from_ended(data: bytes) -> Names:
        """The names that end with NUL, which no name of a file has."""
        names = Names(())
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
        names.blob = data.replace(b"\0", b"")
        names._ends = np.concatenate(([0], ends - np.arange(len(ends)))).astype(np.int64)
        return names

    def to_ended(self) -> bytes:
        """All names, each ended by NUL."""
        return b"".join(self[n] + b"\0" for n in range(len(self)))

    def __getitem__(self, n: int) -> bytes:
        return self.blob[self._ends[n] : self._ends[n + 1]]


@dataclass(frozen=True, slots=True)
class PictureTable:
    """One split of a source, in the spec's order.

    names: path of each picture below the split's root, `class/file`. labels: int32. sizes: int64, bytes of each file.
    places: int64, offset of each picture in the archive, or None for folders. left_out: what is not used, and why.
    classes_given: by a list, so that they keep its order.
    """

    files: Files
    class_names: tuple[str, ...]
    names: Names
    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    places: NDArray[np.int64] | None
    left_out: LeftOut
    classes_given: bool

    def __len__(self) -> int:
        return len(self.labels)

    def name(self, n: int) -> str:
        return os.fsdecode(self.names[n])

    def locator(self, n: int) -> Locator:
        place = -1 if self.places is None else int(self.places[n])
        return (self.names[n] if place < 0 else b"", place, int(self.sizes[n]))

    @property
    def ignored(self) -> int:
        """How many entries are not used."""
        return len(self.left_out)

    def empty_classes(self) -> tuple[str, ...]:
        """The classes without pictures."""
        return empty_classes(self.class_names, self.labels)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the caller says of the source."""

    endings: Sequence[str]
    classes: ClassList | None
    as_is: bool
    labels: LabelList | None

    def labels_for(self, split: str, others: Mapping[str, PictureTable]) -> Labels | None:
        """The labels of a split without class folders, None where it has some. others: the splits before it."""
        if self.labels is None or split == "train":
            return None
        if self.classes is not None or not others:
            return Labels(self.labels, None if self.classes is None else self.classes.names, self.classes)
        (train,) = others.values()
        given = ClassList.of_names(train.class_names, "the classes of train") if train.classes_given else None
        return Labels(self.labels, train.class_names, given)


def open_source(
    path: str | os.PathLike[str],
    *,
    reference: bool = False,
    classes: ClassList | None = None,
    as_is: bool = False,
    labels: LabelList | None = None,
) -> dict[str, PictureTable]:
    """The tables of a source: {"": table} for one split, {"train": ..., "val": ...} where it has both.

    classes: all classes in label order; None takes the folders' names. as_is: folders named like splits are classes.
    labels: of pictures that lie in no class folders; where there are splits, of those of `val`.
    Raises UsageError where nothing there looks like classes of pictures, for splits beside other folders, for a class
    that is not in the list, and for labels that are not those of the pictures; OSError where it cannot be read,
    FormatError for a damaged tar.
    """
    endings = REFERENCE_ENDINGS if reference else PICTURE_ENDINGS
    asked = _Asked(endings, classes, as_is, labels)
    if is_url(path):
        tables = _open_objects(path if isinstance(path, Url) else Url(str(path)), asked)
    elif parts := official_parts(path):
        tables = _open_parts(path, parts, asked)
    elif Path(path).is_dir():
        tables = _open_folder(path, asked)
    else:
        tables = _open_tar(path, asked)
    if labels is not None and set(tables) == {"train"}:
        raise UsageError(f"a list of labels is for the pictures of val, and there is only train: {path}")
    for split, table in tables.items():
        if not len(table):
            raise _no_pictures(path, split, table, endings, labels)
    return _with_common_classes(tables)


def _no_pictures(
    path: object, split: str, table: PictureTable, endings: Sequence[str], labels: LabelList | None
) -> UsageError:
    looked_for = ", ".join("*" + ending for ending in endings)
    where = f"{split}/ of {path}" if split else f"{path}"
    hint = ""
    if split and table.left_out.count(reasons.NO_CLASS):
        hint = f"; where {split} is the name of a class, say so by classes_as_is=True or --classes-as-is"
    if labels is None and table.left_out.count(reasons.NO_CLASS):
        hint += "; pictures in no class folders need a list of their classes: labels= or --labels"
    told = f" (left out: {'; '.join(lines_of(table.left_out.facts()))})" if table.left_out else ""
    return UsageError(f"there are no classes of pictures ({looked_for}) in {where}{told}{hint}")


def _with_common_classes(tables: dict[str, PictureTable]) -> dict[str, PictureTable]:
    """Both splits with the labels of all classes that either has, so that one number means one class."""
    if len({table.class_names for table in tables.values()}) == 1:
        return tables
    if any(table.classes_given for table in tables.values()):
        differing = set.symmetric_difference(*(set(table.class_names) for table in tables.values()))
        raise UsageError(
            f"{' and '.join(tables)} come with different lists of classes ({some(differing) or 'another order'}): "
            "give one for both by classes= or --classes"
        )
    names = sorted({name for table in tables.values() for name in table.class_names})
    label_of = {name: n for n, name in enumerate(names)}
    common = {}
    for split, table in tables.items():
        new = np.array([label_of[name] for name in table.class_names], np.int32)
        common[split] = replace(table, class_names=tuple(names), labels=new[table.labels])
    return common


def _table(
    files: Files, rows: PictureRows, folders: Sequence[str], left_out: LeftOut, given: ClassList | None
) -> PictureTable:
    """The rows in the spec's order; a class is a folder of `folders` or one that a name begins with."""
    found = rows.ordered(folders, given)
    places = found.places if isinstance(files, TarFiles) else None
    return PictureTable(
        files, found.class_names, Names(found.names), found.labels, found.sizes, places, left_out, given is not None
    )


def _open_folder(root: str | os.PathLike[str], asked: _Asked) -> dict[str, PictureTable]:
    top = ClassFolders(root, asked.classes)
    splits = top.splits(as_is=asked.as_is)
    if not splits:
        return {"": _folder_table(top, asked, asked.labels_for("", {}))}
    tables: dict[str, PictureTable] = {}
    for split in splits:
        below = ClassFolders(f"{top.root}/{split}", asked.classes)
        tables[split] = _folder_table(below, asked, asked.labels_for(split, tables))
    tables[splits[0]].left_out.take(top.left_out)
    return tables


def _folder_table(top: ClassFolders, asked: _Asked, labels: Labels | None) -> PictureTable:
    if labels is not None:
        return _table(*flat_folder(top.root, asked.endings, labels))
    rows = top.walk(asked.endings, with_sizes=True)
    return _table(FolderFiles(top.root), rows, top.folders, top.left_out, top.given)


def _open_tar(path: str | os.PathLike[str], asked: _Asked) -> dict[str, PictureTable]:
    """One pass over the member headers; the folders that all names share are not part of the names."""
    archive = TarRows(path, asked.classes)
    tables: dict[str, PictureTable] = {}
    for split in archive.find_top(asked.endings, as_is=asked.as_is) or ("",):
        tables[split] = _tar_table(archive, split, asked, asked.labels_for(split, tables))
    return tables


def _open_objects(url: Url, asked: _Asked) -> dict[str, PictureTable]:
    """What lies below a URL, as if it were a tar: one listing, and each picture a request of its own."""
    if urlsplit(url).scheme not in OBJECT_SCHEMES or url.lower().endswith(".tar"):
        raise UsageError(f"pictures come from a folder, a tar of this machine, or a folder of a bucket, not from {url}")
    if asked.labels is not None:
        raise UsageError(f"a list of labels is for folders and tars of this machine; a bucket has class folders: {url}")
    root = Url(url if url.endswith("/") else f"{url}/", url.access)
    archive = TarRows(root, asked.classes, ObjectFiles(root))
    splits = archive.find_top(asked.endings, as_is=asked.as_is) or ("",)
    return {split: _tar_table(archive, split, asked, None) for split in splits}


def _tar_table(archive: TarRows, split: str, asked: _Asked, labels: Labels | None) -> PictureTable:
    if labels is not None:
        return _table(*flat_tar(archive, split, asked.endings, labels))
    rows, folders, left_out, given = archive.below(split, asked.endings)
    return _table(archive.files_below(split), rows, folders, left_out, given)


def _open_parts(root: str | os.PathLike[str], parts: Mapping[str, str], asked: _Asked) -> dict[str, PictureTable]:
    """Splits of which at least one is an archive, each read where it lies."""
    tables: dict[str, PictureTable] = {}
    for split, path in parts.items():
        labels = asked.labels_for(split, tables)
        if Path(path).is_dir():
            tables[split] = _folder_table(ClassFolders(path, asked.classes), asked, labels)
        else:
            archive = TarRows(path, asked.classes)
            archive.find_top(asked.endings, as_is=True)
            tables[split] = _tar_table(archive, "", asked, labels)
    used = {*parts.values()} | ({str(Path(asked.labels.path).absolute())} if asked.labels else set())
    for name in beside(root, used):
        next(iter(tables.values())).left_out.add(reasons.BESIDE, name)
    return tables
