"""`trainload.open_images`: the right reader for pictures, found by what the bytes say, not by the name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from trainload.errors import UsageError
from trainload.formats.progress import Progress
from trainload.images.checking.whole_file import check_whole_files
from trainload.images.classes.given import GivenClasses
from trainload.images.format.dts import IMAGENET
from trainload.images.reading.arrays import ArrayReader
from trainload.images.reading.class_folders import FolderReader
from trainload.images.reading.dts import DtsReader
from trainload.storage.containers import HYPERFRAME, AnyPath, find_files, holds_recordings, read_kind
from trainload.storage.location import access_of, is_url

ImageReader = DtsReader | ArrayReader | FolderReader


def open_images(
    path: AnyPath | Sequence[AnyPath],
    *,
    classes: GivenClasses | None = None,
    classes_as_is: bool = False,
    verify: Literal["file"] | None = None,
    progress: Progress | None = None,
    storage: Mapping[str, str] | None = None,
    cache: AnyPath | None = None,
    cache_bytes: int | str = "auto",
) -> ImageReader:
    """The reader for one set: a file, all its volumes (a list or a pattern such as "train-*.dts"), or a folder.

    DtsReader for pictures in blocks, ArrayReader for MNIST and CIFAR, FolderReader for a folder of class folders.
    classes, classes_as_is: as for `trainload.open`. verify: "file" compares each file's CRC-32 with its data first,
    once: what was found good is remembered by file identity. progress: called with bytes done and in all of each file;
    left out, a bar where stderr is a terminal. storage, cache, cache_bytes: of URLs, as for `trainload.open`.
    Raises ChecksumError where "file" finds damage; `trainload verify FILE` then says which blocks.
    Raises UsageError for a recording and for a pattern that matches nothing, FormatError for bytes that are no set,
    OSError where the system cannot open a file.
    """
    if verify not in (None, "file"):
        raise UsageError(f'verify is "file" or left out, not {verify!r}')
    paths = find_files(path, access_of(storage, cache, cache_bytes))
    reader = _open(paths, classes, classes_as_is)
    if verify is None:
        return reader
    try:
        if isinstance(reader, FolderReader):
            raise UsageError(f"a folder of pictures carries no checksums, so verify='file' has none: {reader.path}")
        reader.verified_files = check_whole_files(reader.paths, progress=progress)
    except BaseException:
        reader.close()
        raise
    return reader


def _open(paths: list[str], classes: GivenClasses | None, classes_as_is: bool) -> ImageReader:
    if any(map(holds_recordings, paths)):
        raise UsageError(f"this is a folder of recordings, not of pictures: {paths[0]}")
    if len(paths) == 1 and not is_url(paths[0]) and Path(paths[0]).is_dir():
        return FolderReader(paths[0], classes=classes, classes_as_is=classes_as_is)
    if classes is not None or classes_as_is:
        raise UsageError(f"only class folders take a list of classes, a packed set carries its own: {paths[0]}")
    kind = read_kind(paths[0])
    if kind == HYPERFRAME:
        raise UsageError(f"this is a recording, not a set of pictures: {paths[0]}")
    if kind == IMAGENET:
        return DtsReader(paths)
    if len(paths) > 1:
        raise UsageError(f"only volumes of a picture set or parts of a recording open together, not {paths[0]}")
    return ArrayReader(paths[0])
