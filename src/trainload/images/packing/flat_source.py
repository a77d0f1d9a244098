"""Pictures in no class folders, with a list of labels: given class folders by name, so that all that follows is one.

A picture `x.JPEG` of class `cat` is listed as `cat/x.JPEG`: packing it gives the same file as packing class folders.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from trainload.images.classes import left_out as reasons
from trainload.images.classes.class_list import ClassList
from trainload.images.classes.left_out import LeftOut
from trainload.images.classes.picture_rows import PictureRows
from trainload.images.classes.walk import flat_pictures
from trainload.images.packing.label_list import LabelList
from trainload.images.packing.source_files import FlatFiles, TarFiles
from trainload.images.packing.tar_rows import TarRows, in_class_folders


class Labels(NamedTuple):
    """What is known of a flat split's classes.

    known: all of them in label order, by a list or another split. given: the list that says so, None where `known` are
    sorted names.
    """

    labels: LabelList
    known: Sequence[str] | None
    given: ClassList | None


class FlatRows(NamedTuple):
    """As class folders: rows of `class/name`, the names of the classes (also those without a picture), where from."""

    files: FlatFiles | TarFiles
    rows: PictureRows
    folders: Sequence[str]
    left_out: LeftOut
    given: ClassList | None


def flat_folder(root: str, endings: Sequence[str], labels: Labels) -> FlatRows:
    """The pictures of a folder. Raises UsageError as `LabelList.classes_of` does, OSError."""
    left_out = LeftOut()
    rows = flat_pictures(root, endings, left_out)
    if not len(rows) and left_out.count(reasons.FOLDER):
        raise in_class_folders(root)
    return _labelled(FlatFiles(root), rows, left_out, labels)


def flat_tar(archive: TarRows, split: str, endings: Sequence[str], labels: Labels) -> FlatRows:
    """The pictures of a tar, or of one of its splits. Raises as `flat_folder` does, also for class folders."""
    rows, left_out = archive.flat_below(split, endings)
    assert isinstance(archive.files, TarFiles)  # a bucket with a list of labels was refused
    return _labelled(archive.files, rows, left_out, labels)


def _labelled(files: FlatFiles | TarFiles, rows: PictureRows, left_out: LeftOut, labels: Labels) -> FlatRows:
    found = PictureRows()
    if len(rows):
        classes = labels.labels.classes_of([os.fsdecode(name) for name in rows.names], labels.known)
        for name, class_name, size, place in zip(rows.names, classes, rows.sizes, rows.places):
            found.add(os.fsencode(class_name) + b"/" + name, size, place)
    return FlatRows(files, found, labels.known or (), left_out, labels.given)
