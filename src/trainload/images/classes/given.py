"""The classes that a caller gives, in any of their forms, as one list. Below packers and readers: both take it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trainload.errors import UsageError
from trainload.formats.sections import sections_from_bytes
from trainload.images.classes.class_list import (
    MAX_CLASS_LIST_BYTES,
    ClassList,
    class_list_from_json,
    class_list_from_text,
    number_classes,
)
from trainload.images.classes.packed_names import unpack_names
from trainload.images.classes.walk import ClassFolders
from trainload.images.format import dts
from trainload.images.format.class_names import CLASS_NAMES
from trainload.storage.file import FileSource


class HasClasses(Protocol):
    """A reader of pictures."""

    @property
    def class_names(self) -> tuple[str, ...]: ...


GivenClasses = str | os.PathLike[str] | Sequence[str] | HasClasses


def class_list_of(given: GivenClasses) -> ClassList:
    """The classes in label order: of a path (a packed set, class folders, a text file), of names, of an open reader.

    Raises UsageError for what carries no class names or one of them twice, FormatError for a damaged file, OSError.
    """
    if isinstance(given, str | os.PathLike):
        return _of_path(os.fspath(given))
    if isinstance(given, Sequence):
        return ClassList.of_names(list(given), "classes=")
    if not given.class_names:
        raise _nameless(str(getattr(given, "path", given)))
    return ClassList.of_names(given.class_names, f"classes of {given!r}")


def _of_path(path: str) -> ClassList:
    if Path(path).is_dir():
        top = ClassFolders(path)
        if splits := top.splits(as_is=False):
            raise UsageError(f"{path} holds the folders of splits: give the classes of one, such as {path}/{splits[0]}")
        return ClassList.of_names(number_classes(top.folders, top.given)[0], path)
    with FileSource(path) as source:
        if source.read_at(0, min(4, source.size)) == dts.MAGIC:
            return ClassList.of_names(_of_set(source), path)
        if source.size > MAX_CLASS_LIST_BYTES:
            raise UsageError(f"a list of classes has at most {MAX_CLASS_LIST_BYTES:,} bytes: {path}")
        data = source.read_at(0, source.size)
    if data[:4] == b"HFRM":
        raise UsageError(f"a recording has no classes: {path}")
    if path.endswith(".json"):
        own = class_list_from_json(data, path)
        return ClassList.of_names(own.names, path)
    return class_list_from_text(data, path)


def _of_set(source: FileSource) -> tuple[str, ...]:
    """The class names that a packed set carries."""
    head = source.read_at(0, min(dts.HEADER_BYTES_USED, source.size))
    header = dts.DtsHeader.from_bytes(head, file_size=source.size, path=source.path)
    if not header.holds_pictures:
        return CLASS_NAMES[header.dataset_type]
    start = dts.EXTENSION_OFFSET + dts.EXTENSION_HEAD_BYTES
    size = dts.extension_size_from_bytes(source.read_at(dts.EXTENSION_OFFSET, start - dts.EXTENSION_OFFSET))
    sections = dict(sections_from_bytes(source.read_at(start, size), path=source.path, offset=start))
    body = sections.get(dts.TAG_CLASSES)
    if body is None:
        raise _nameless(source.path)
    count = header.num_classes
    names = unpack_names(dts.TAG_CLASSES, body, count, file_size=source.size, path=source.path)
    return tuple(names[n] for n in range(count))


def _nameless(path: str) -> UsageError:
    return UsageError(
        f"a genuine file carries no class names: give a text file with one name per line, or the class folders: {path}"
    )
