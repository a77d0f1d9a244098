"""Walks a folder of class folders: every entry is used, or counted with the reason why it is not.

Links are followed, to files and to folders, and loops of them are found. A pipe, socket or device is never opened. A
folder that may not be read is an error. No system call per file where its folder's entry says what it is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from pathlib import Path

from trainload.formats.picture_kinds import PICTURE_ENDINGS
from trainload.formats.rules import LIMIT
from trainload.images.classes import left_out as reasons
from trainload.images.classes.class_list import CLASSES_FILE, MAX_CLASS_LIST_BYTES, ClassList, class_list_from_json
from trainload.images.classes.folder_rules import find_splits, is_hidden
from trainload.images.classes.left_out import LeftOut
from trainload.images.classes.picture_rows import PictureRows, has_ending

Identity = tuple[int, int]  # device and inode


class _Kind(Enum):
    FILE = auto()
    FOLDER = auto()
    LINKED_FOLDER = auto()
    DANGLING = auto()
    LOOP = auto()
    SPECIAL = auto()


_REASON = {_Kind.DANGLING: reasons.DANGLING, _Kind.LOOP: reasons.LOOP, _Kind.SPECIAL: reasons.SPECIAL}


class ClassFolders:
    """The top of a source. root: absolute. folders: those that may be classes, in no order. left_out: what is neither.

    given: the classes that the caller or the folder's own CLASSES_FILE lists, None where they are the folders' names.
    Raises OSError, also for a link to nothing that looks like a class, FormatError for a bad CLASSES_FILE.
    """

    def __init__(self, root: str | os.PathLike[str], given: ClassList | None = None) -> None:
        self.root = str(Path(root).absolute())
        self.left_out = LeftOut()
        self.given = own = _own_list(self.root)
        if given is not None:
            self.given = given if own is None else own.in_order_of(given)
        self.folders: list[str] = []
        listed = set() if self.given is None else set(self.given.folders)
        with os.scandir(self.root) as entries:
            for entry in entries:
                if entry.name != CLASSES_FILE:
                    self._add(entry, entry.name in listed)

    def _add(self, entry: os.DirEntry[str], listed: bool) -> None:
        if is_hidden(entry.name) and not listed:
            self.left_out.add(reasons.HIDDEN, entry.name)
            return
        kind = _kind_of(entry, self.root, "")
        if kind in (_Kind.FOLDER, _Kind.LINKED_FOLDER):
            self.folders.append(entry.name)
        elif kind == _Kind.DANGLING and (listed or "." not in entry.name):
            told = "a link in the place of a class folder leads to nothing: mount what it leads to, or remove it"
            raise FileNotFoundError(errno.ENOENT, told, entry.path)
        else:
            self.left_out.add(_REASON.get(kind, reasons.NO_CLASS), entry.name)

    def splits(self, *, as_is: bool) -> tuple[str, ...]:
        """The splits that the folders are, () where they are classes. Raises UsageError for a mixture."""
        return find_splits(self.root, self.folders, self._holds_folders, self.given, as_is)

    def _holds_folders(self, name: str) -> bool:
        with os.scandir(f"{self.root}/{name}") as entries:
            kinds = {_kind_of(entry, self.root, name) for entry in entries if not is_hidden(entry.name)}
        return bool(kinds & {_Kind.FOLDER, _Kind.LINKED_FOLDER})

    def walk(self, endings: Sequence[str], *, with_sizes: bool) -> PictureRows:
        """Every picture below the class folders; what is none is added to `left_out`. Sizes are 0 unless asked for."""
        rows = PictureRows()
        for folder in self.folders:
            for path, size in _pictures_below(self.root, folder, tuple(endings), self.left_out, with_sizes):
                rows.add(os.fsencode(path), size)
        return rows


def holds_pictures(folder: str | os.PathLike[str]) -> bool:
    """Whether a picture, by its name, lies in the folder itself; stops at the first."""
    with os.scandir(folder) as entries:
        return any(has_ending(entry.name, PICTURE_ENDINGS) and not is_hidden(entry.name) for entry in entries)


def flat_pictures(root: str, endings: Sequence[str], left_out: LeftOut) -> PictureRows:
    """The pictures that lie in the folder itself, with their sizes; what else lies there is added to `left_out`."""
    rows = PictureRows()
    with os.scandir(root) as entries:
        for entry in entries:
            kind = _kind_of(entry, root, "")
            if is_hidden(entry.name):
                left_out.add(reasons.HIDDEN, entry.name)
            elif kind is _Kind.FILE and has_ending(entry.name, endings):
                rows.add(os.fsencode(entry.name), entry.stat().st_size)
            elif kind in (_Kind.FOLDER, _Kind.LINKED_FOLDER):
                left_out.add(reasons.FOLDER, entry.name)
            else:
                left_out.add(_REASON.get(kind, reasons.NO_PICTURE_NAME), entry.name)
    return rows


def _pictures_below(
    root: str, folder: str, endings: tuple[str, ...], left_out: LeftOut, with_sizes: bool
) -> Iterator[tuple[str, int]]:
    """(path below `root`, size) of each picture below `root/folder`."""
    waiting = [folder]
    while waiting:
        below = waiting.pop()
        with os.scandir(f"{root}/{below}") as entries:
            for entry in entries:
                path = f"{below}/{entry.name}"
                if is_hidden(entry.name):
                    left_out.add(reasons.HIDDEN, path)
                    continue
                kind = _kind_of(entry, root, below)
                if kind is _Kind.FILE and has_ending(entry.name, endings):
                    yield path, entry.stat().st_size if with_sizes else 0
                elif kind in (_Kind.FOLDER, _Kind.LINKED_FOLDER):
                    waiting.append(path)
                else:
                    left_out.add(_REASON.get(kind, reasons.NO_PICTURE_NAME), path)


def _kind_of(entry: os.DirEntry[str], root: str, below: str) -> _Kind:
    if entry.is_file(follow_symlinks=False):
        return _Kind.FILE
    if entry.is_dir(follow_symlinks=False):
        return _Kind.FOLDER
    if not entry.is_symlink():
        return _Kind.SPECIAL
    try:
        status = os.stat(entry.path)  # noqa: PTH116  (an entry's path is a string)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return _Kind.DANGLING
        if error.errno == errno.ELOOP:
            return _Kind.LOOP
        raise
    if stat.S_ISREG(status.st_mode):
        return _Kind.FILE
    if not stat.S_ISDIR(status.st_mode):
        return _Kind.SPECIAL
    return _Kind.LOOP if (status.st_dev, status.st_ino) in _folders_above(root, below) else _Kind.LINKED_FOLDER


def _folders_above(root: str, below: str) -> set[Identity]:
    """The folders that `root/below` lies in, and itself: on the way that was walked, and where it really is."""
    real = Path(root, below).resolve()
    paths = [real, *real.parents, *Path(root).resolve().parents, Path(root)]
    walked = Path(root)
    for part in Path(below).parts:
        walked = walked / part
        paths.append(walked)
    found = [path.stat() for path in paths]
    return {(status.st_dev, status.st_ino) for status in found}


def _own_list(root: str) -> ClassList | None:
    path = f"{root}/{CLASSES_FILE}"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return None
        with open(path, "rb") as file:
            data = file.read(MAX_CLASS_LIST_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_CLASS_LIST_BYTES:
        raise LIMIT.broken(
            field="file size",
            offset=None,
            found="more",
            expected=f"at most {MAX_CLASS_LIST_BYTES:,} bytes",
            path=path,
        )
    return class_list_from_json(data, path)
