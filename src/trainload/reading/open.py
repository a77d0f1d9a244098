"""`trainload.open`: the right reader for a path, found by what the bytes say, not by the file's name."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.codecs.given_classes import GivenClasses
from trainload.errors import FormatError, UsageError
from trainload.formats.dts import HEADER_BYTES_USED, IMAGENET, MAGIC
from trainload.reading.arrays import ArrayReader
from trainload.reading.dts import DtsReader
from trainload.reading.folder import FolderReader
from trainload.storage.file import FileSource

if TYPE_CHECKING:
    from trainload.reading.hyperframe import HyperframeReader

AnyPath = str | os.PathLike[str]

HYPERFRAME_MAGIC = b"HFRM"


def open(
    path: AnyPath | Sequence[AnyPath], *, classes: GivenClasses | None = None, classes_as_is: bool = False
) -> DtsReader | ArrayReader | FolderReader | HyperframeReader:
    """The reader for one file, all volumes of a set (a list or a pattern such as "train-*.dts"), or a folder.

    DtsReader for pictures in blocks, ArrayReader for MNIST and CIFAR, HyperframeReader for recordings (one file, a
    list, or a folder of parts), FolderReader for a folder of class folders. A relative path is made absolute: the
    reader, its copies and its pickles stay usable after a change of the working directory.
    classes: of class folders, all class names in label order: a list, a set that has them, or the path of a set, of
    class folders or of a text file with one name per line. classes_as_is: folders named train, val, test and the like
    are classes.
    Raises FormatError for bytes that are none of these, UsageError for a pattern that matches nothing, OSError where
    the system cannot open a file.
    """
    paths = find_files(path)
    if len(paths) == 1 and Path(paths[0]).is_dir() and not any(Path(paths[0]).glob("*.hfr")):
        return FolderReader(paths[0], classes=classes, classes_as_is=classes_as_is)
    if classes is not None or classes_as_is:
        raise UsageError(f"only class folders take a list of classes, a packed set carries its own: {paths[0]}")
    if Path(paths[0]).is_dir():
        return _open_recording(paths)
    kind = read_kind(paths[0])
    if kind == IMAGENET:
        return DtsReader(paths)
    if kind == "HFRM":
        return _open_recording(paths)
    if len(paths) > 1:
        raise UsageError(f"only volumes of a picture set or parts of a recording open together, not {paths[0]}")
    return ArrayReader(paths[0])


def _open_recording(paths: Sequence[str]) -> HyperframeReader:
    from trainload.reading.hyperframe import HyperframeReader

    return HyperframeReader(paths[0] if len(paths) == 1 else paths)


def find_files(path: AnyPath | Sequence[AnyPath]) -> list[str]:
    """The files that a path, a list of paths or a pattern names, sorted. Raises UsageError for none."""
    if not isinstance(path, str | os.PathLike):
        found = [name for one in path for name in find_files(one)]
        if not found:
            raise UsageError("no path was given")
        return found
    name = os.fspath(path)
    if glob.has_magic(name) and not Path(name).exists():
        matches = sorted(glob.glob(name))  # noqa: PTH207 (a pattern may be absolute, Path.glob refuses those)
        if not matches:
            raise UsageError(f"the pattern matches no file: {name}")
        return matches
    return [name]


def read_kind(path: str) -> str:
    """What a file is, by its first bytes: "HFRM", or the dataset type of a DTS file. Raises FormatError for others."""
    with FileSource(path) as source:
        head = source.read_at(0, min(HEADER_BYTES_USED, source.size))
    if head[:4] == HYPERFRAME_MAGIC:
        return "HFRM"
    if head[:4] == MAGIC:
        return head[8:16].decode("latin-1").lstrip(" ")
    raise FormatError(
        "a file must open with the magic of a known container", field="magic", offset=0, found=head[:4],
        expected="b'.DTS' or b'HFRM'", path=path,
    )  # fmt: skip
