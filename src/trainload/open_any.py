"""`trainload.open`: the right reader for a path, found by what the bytes say, not by the file's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trainload.errors import UsageError
from trainload.storage.containers import HYPERFRAME, AnyPath, find_files, holds_recordings, read_kind
from trainload.storage.location import access_of

if TYPE_CHECKING:
    from trainload.images.classes.given import GivenClasses
    from trainload.images.reading.open import ImageReader
    from trainload.recordings.reading.hyperframe import HyperframeReader


def open(
    path: AnyPath | Sequence[AnyPath],
    *,
    classes: GivenClasses | None = None,
    classes_as_is: bool = False,
    verify: Literal["file"] | None = None,
    storage: Mapping[str, str] | None = None,
    cache: AnyPath | None = None,
    cache_bytes: int | str = "auto",
) -> ImageReader | HyperframeReader:
    """The reader for one file, all volumes of a set (a list or a pattern such as "train-*.dts"), or a folder.

    DtsReader for pictures in blocks, ArrayReader for MNIST and CIFAR, HyperframeReader for recordings (one file, a
    list, or a folder of parts), FolderReader for a folder of class folders. A relative path is made absolute: the
    reader, its copies and its pickles stay usable after a change of the working directory. `open_images` and
    `open_recording` take one kind each.
    classes: of class folders, all class names in label order: a list, a set that has them, or the path of a set, of
    class folders or of a text file with one name per line. classes_as_is: folders named train, val, test and the like
    are classes. verify: "file" compares the CRC-32 of a set's files first, once (`open_images`).
    A path may be a URL, s3://, gs://, az:// or https:// (docs/remote.md), of a bucket also a pattern, or with a final
    `/` all that lies there. storage: options of its client. cache: a folder of this machine that keeps what was read.
    cache_bytes: what this set may take of it, a number or "200GB"; "auto": all of the set, as the disk allows.
    Raises FormatError for bytes that are none of these, UsageError for a pattern that matches nothing, OSError where
    the system cannot open a file, RemoteError where a server gives no object.
    """
    paths = find_files(path, access_of(storage, cache, cache_bytes))
    if not _is_recording(paths):
        from trainload.images.reading.open import open_images

        return open_images(paths, classes=classes, classes_as_is=classes_as_is, verify=verify)
    if classes is not None or classes_as_is:
        raise UsageError(f"only class folders take a list of classes, not a recording: {paths[0]}")
    if verify is not None:
        raise UsageError(f"a recording is checked as it is read, or whole by trainload.verify: {paths[0]}")
    from trainload.recordings.reading.open import open_recording

    return open_recording(paths)


def _is_recording(paths: Sequence[str]) -> bool:
    if Path(paths[0]).is_dir():
        return holds_recordings(paths[0])
    return read_kind(paths[0]) == HYPERFRAME
