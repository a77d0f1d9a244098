"""A folder of class folders, read as it is: the same handle as a packed set, so that both can be compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainload.errors import UsageError
from trainload.formats.picture_kinds import PICTURE_ENDINGS
from trainload.images.classes.given import GivenClasses, class_list_of
from trainload.images.classes.left_out import lines_of
from trainload.images.classes.walk import ClassFolders
from trainload.images.reading.describe import in_html, in_one_line, size_text
from trainload.images.reading.sample import Sample
from trainload.storage.file import FileSource


class FolderReader:
    """The pictures below each class folder, the same ones that `trainload pack images` takes, in its order.

    len(ds) samples; ds[i] reads one file. Every folder is a class, hidden ones aside; labels follow the sorted folder
    names or `classes`, samples the sorted file names and, where those are equal, label and path. Links are followed.
    paths: str [n], absolute. labels: int32 [n]. class_names: in label order. sizes: int64 [n], bytes, asked of the
    system on first use, 0 where it does not say. left_out: entries that are no pictures, by reason (LeftOut).
    classes: as for `trainload.open`. classes_as_is: folders with the names of splits are classes.
    Raises UsageError where there is no picture, where splits stand in the place of classes and for a class that is not
    in `classes`, OSError for a folder that may not be read.
    Pictures are known by their names' endings (formats/picture_kinds.py), in any case.
    """

    level = None

    def __init__(
        self, path: str | os.PathLike[str], *, classes: GivenClasses | None = None, classes_as_is: bool = False
    ) -> None:
        top = ClassFolders(path, None if classes is None else class_list_of(classes))
        self.path = top.root
        if splits := top.splits(as_is=classes_as_is):
            raise UsageError(
                f"{self.path} holds the folders of several splits: open {self.path}/{splits[0]}; where these are names "
                "of classes, say so by classes_as_is=True"
            )
        found = top.walk(PICTURE_ENDINGS, with_sizes=False).ordered(top.folders, top.given)
        self.left_out = top.left_out
        if not found.names:
            told = f" (left out: {'; '.join(lines_of(self.left_out.facts()))})" if self.left_out else ""
            raise UsageError(f"no class folder with pictures ({', '.join(PICTURE_ENDINGS)}) in {self.path}{told}")
        self.class_names = found.class_names
        self.paths = [f"{self.path}{os.sep}{os.fsdecode(name)}" for name in found.names]
        self.labels: NDArray[np.int32] = found.labels

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each file, int64 [n]."""
        return np.array([_size_of(path) for path in self.paths], np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Sample]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, i: int) -> Sample:
        with FileSource(self.paths[i]) as source:
            data = source.read_at(0, source.size)
        return Sample(memoryview(data), int(self.labels[i]), i if i >= 0 else i + len(self.paths))

    def samples(self, indices: ArrayLike) -> list[Sample]:
        """The samples of any ids, in the order asked; one file each."""
        return [self[i] for i in np.asarray(indices, np.int64).ravel().tolist()]

    def source(self, i: int) -> str:
        """The path of sample `i` relative to the folder."""
        return os.path.relpath(self.paths[i], self.path)

    def clone(self) -> FolderReader:
        """The same handle: a folder holds no open file."""
        return self

    def facts(self) -> dict[str, Any]:
        """What `trainload info` shows, as JSON values."""
        counts = np.bincount(self.labels, minlength=len(self.class_names))
        return {
            "format": "class folders",
            "path": self.path,
            "samples": len(self),
            "classes": len(self.class_names),
            "class_names": list(self.class_names),
            "samples_per_class": counts.tolist(),
            "left_out": self.left_out.facts(),
            "bytes": int(self.sizes.sum()),
            "picture_bytes_mean": round(float(self.sizes.mean())),
            "picture_bytes_smallest": int(self.sizes.min()),
            "picture_bytes_largest": int(self.sizes.max()),
        }

    def close(self) -> None:
        """Nothing to close: every read opens and closes its own file."""

    def __enter__(self) -> FolderReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return in_one_line("FolderReader", self.path, self._shown())

    def _repr_html_(self) -> str:
        return in_html("FolderReader", self.path, self._shown(), self.class_names)

    def _shown(self) -> dict[str, str]:
        return {
            "samples": f"{len(self):,}",
            "classes": f"{len(self.class_names):,}",
            "left out": f"{len(self.left_out):,}" if self.left_out else "",
            "size": size_text(int(self.sizes.sum())) if "sizes" in self.__dict__ else "",  # else every file is asked
        }


def _size_of(path: str) -> int:
    """0 for a file that is gone or hidden by now: reading it will say so."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
