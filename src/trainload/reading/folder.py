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
from trainload.reading.sample import Sample

PICTURE_SUFFIXES = (".jpeg", ".jpg", ".png")
_SPLITS = {"train", "val"}


class FolderReader:
    """The pictures below each class folder: .jpeg, .jpg and .png in any case, in the order of docs/spec/dts.md.

    len(ds) samples; ds[i] reads one file. Every folder is a class; labels follow the sorted folder names, samples the
    sorted file names and, where those are equal, the paths. paths: str [n]. labels: int32 [n]. class_names: the
    folders' names. sizes: int64 [n], bytes, asked of the system on first use.
    Raises UsageError where there is no picture, or where `train` and `val` stand in the place of classes.
    """

    level = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.class_names = tuple(sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir()))
        if self.class_names and set(self.class_names) <= _SPLITS:
            raise UsageError(f"{self.path} holds the folders of several splits: open {self.path}/{self.class_names[0]}")
        found = [
            (os.fsencode(file.rpartition(os.sep)[2]), label, file)
            for label, name in enumerate(self.class_names)
            for file in _pictures_below(self.path, name)
        ]
        if not found:
            raise UsageError(f"no class folder with pictures ({', '.join(PICTURE_SUFFIXES)}) in {self.path}")
        found.sort()
        self.paths = [f"{self.path}{os.sep}{file}" for _, _, file in found]
        self.labels: NDArray[np.int32] = np.array([label for _, label, _ in found], np.int32)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each file, int64 [n]."""
        return np.array([Path(path).stat().st_size for path in self.paths], np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Sample:
        data = Path(self.paths[i]).read_bytes()
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
            "format": "class folders", "path": self.path, "samples": len(self), "classes": len(self.class_names),
            "class_names": list(self.class_names), "samples_per_class": counts.tolist(),
            "bytes": int(self.sizes.sum()), "picture_bytes_mean": round(float(self.sizes.mean())),
            "picture_bytes_smallest": int(self.sizes.min()), "picture_bytes_largest": int(self.sizes.max()),
        }  # fmt: skip

    def close(self) -> None:
        """Nothing to close: every read opens and closes its own file."""

    def __enter__(self) -> FolderReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FolderReader({self.path!r}, {len(self):,} samples, {len(self.class_names):,} classes)"


def _pictures_below(root: str, folder: str) -> Iterator[str]:
    """Paths relative to `root` of the pictures below `root/folder`; links to folders are not followed."""
    for where, _, files in os.walk(Path(root, folder)):
        below = os.path.relpath(where, root)
        for file in files:
            if file.lower().endswith(PICTURE_SUFFIXES):
                yield f"{below}{os.sep}{file}"
