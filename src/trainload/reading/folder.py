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


class FolderReader:
    """The pictures below each class folder: .jpeg, .jpg and .png in any case, in the order of docs/spec/dts.md.

    len(ds) samples; ds[i] reads one file. A class is a folder with at least one picture below it; labels follow the
    sorted folder names, samples the label and then the sorted path below the folder. paths: str [n].
    labels: int32 [n]. class_names: the folders' names. sizes: int64 [n], bytes, asked of the system on first use.
    Raises UsageError where there is no picture.
    """

    level = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        folders = sorted(entry.name for entry in os.scandir(self.path) if entry.is_dir())
        found = [(name, sorted(_pictures_below(Path(self.path, name)))) for name in folders]
        classes = [(name, files) for name, files in found if files]
        if not classes:
            raise UsageError(f"no class folder with pictures ({', '.join(PICTURE_SUFFIXES)}) in {self.path}")
        self.class_names = tuple(name for name, _ in classes)
        self.paths = [f"{self.path}{os.sep}{name}{os.sep}{file}" for name, files in classes for file in files]
        self.labels: NDArray[np.int32] = np.repeat(
            np.arange(len(classes), dtype=np.int32), [len(files) for _, files in classes]
        )

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


def _pictures_below(folder: Path) -> Iterator[str]:
    for where, _, files in os.walk(folder):
        below = os.path.relpath(where, folder)
        prefix = "" if below == os.curdir else below + os.sep
        for file in files:
            if file.lower().endswith(PICTURE_SUFFIXES):
                yield prefix + file
