"""The list of docs/spec/dts.md, section 5: files of class folders as they are met, then labelled and put into order."""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainload.images.classes.class_list import ClassList, number_classes


class PictureRows:
    """Pictures in any order. names: bytes of each path, `class/file`. sizes, places: int64, bytes and offset."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.sizes = array("q")
        self.places = array("q")

    def add(self, name: bytes, size: int = 0, place: int = -1) -> None:
        """One picture more."""
        self.names.append(name)
        self.sizes.append(size)
        self.places.append(place)

    def __len__(self) -> int:
        return len(self.names)

    def ordered(self, folders: Collection[str], given: ClassList | None) -> OrderedRows:
        """The list in the spec's order. folders: the class folders, also empty ones. UsageError for an unlisted one."""
        names = self.names
        tops = {name.partition(b"/")[0] for name in names}
        class_names, label_of = number_classes({*folders, *map(os.fsdecode, tops)}, given)
        label_of_top = {top: label_of[os.fsdecode(top)] for top in tops}
        order = sorted(range(len(names)), key=lambda n: names[n].replace(b"/", b"\0"))
        if given is not None:
            order.sort(key=lambda n: label_of_top[names[n].partition(b"/")[0]])
        order.sort(key=lambda n: names[n].rpartition(b"/")[2])
        labels = np.fromiter((label_of_top[names[n].partition(b"/")[0]] for n in order), np.int32, len(order))
        places, sizes = np.array(self.places, np.int64)[order], np.array(self.sizes, np.int64)[order]
        return OrderedRows(class_names, [names[n] for n in order], labels, sizes, places)


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """class_names: in label order. names: bytes of each path. labels: int32. sizes, places: int64."""

    class_names: tuple[str, ...]
    names: list[bytes]
    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    places: NDArray[np.int64]


def empty_classes(class_names: tuple[str, ...], labels: NDArray[np.int32]) -> tuple[str, ...]:
    """The classes that have no picture."""
    counts = np.bincount(labels, minlength=len(class_names))
    return tuple(name for name, count in zip(class_names, counts.tolist()) if not count)


def has_ending(name: str, endings: Sequence[str]) -> bool:
    """Whether a file's name says that it is a picture."""
    return name.lower().endswith(tuple(endings))
