"""A packed image set back into a folder of class folders: the packed bytes under their source names.

Paths in a file are untrusted: one that could leave the folder, or that was already used, is replaced by a number.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainload.errors import UsageError
from trainload.reading.arrays import ArrayReader
from trainload.reading.dts import DtsReader
from trainload.reading.sample import Sample

MAX_PART_BYTES = 255  # one folder or file name
_PNG_MAGIC = b"\x89PNG"


@dataclass(slots=True)
class Extracted:
    """What was written. renamed: samples whose carried path was unsafe or taken, by id."""

    path: str
    samples: int = 0
    bytes: int = 0
    renamed: list[int] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {"path": self.path, "samples": self.samples, "bytes": self.bytes, "renamed": self.renamed}


def extract(
    ds: DtsReader | ArrayReader,
    out: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Extracted:
    """Write every sample of `ds` into the new folder `out`, one folder per class (also for classes without samples).

    LV0 gives the source's bytes, LV1-3 the packed JPEGs, MNIST and CIFAR PNGs. Without carried paths a sample is called
    by its id. Every block is held to its CRC-32 where the file carries one. The folder is written as `<out>.tmp` and
    renamed at the end. progress: called with (samples done, samples in all).
    Raises UsageError where `out` is not new or empty, FormatError for damage.
    """
    out = Path(out).resolve()
    tmp = out.with_name(out.name + ".tmp")
    if tmp.exists():
        raise UsageError(f"{tmp} is left from an earlier run: look at it and delete it")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"the folder to extract to must be new or empty: {out}")
    result = Extracted(str(out))
    folders = class_folders(ds.class_names, ds.header.num_classes)
    for name in folders:
        (tmp / name).mkdir(parents=True)
    for sample in _samples(ds):
        data = _to_png(sample) if isinstance(ds, ArrayReader) else sample.data
        _write(tmp, ds.source(sample.id), folders[sample.label], sample.id, data, result)
        if progress is not None:
            progress(result.samples, len(ds))
    tmp.mkdir(exist_ok=True)
    tmp.replace(out)
    return result


def class_folders(class_names: tuple[str, ...], num_classes: int) -> list[str]:
    """A folder name per class: its name where that is safe and no other class's, else its zero-padded number."""
    width = len(str(max(num_classes - 1, 0)))
    numbers = [f"{label:0{width}}" for label in range(num_classes)]
    names = [name if is_safe(name) and os.sep not in name else "" for name in class_names or [""] * num_classes]
    return names if all(names) and len(set(names)) == len(names) else numbers


def is_safe(path: str) -> bool:
    """True for a relative path of plain names: nothing absolute, empty, "." or "..", no separators of other systems."""
    parts = path.split("/")
    named = all(part not in ("", ".", "..") and len(os.fsencode(part)) <= MAX_PART_BYTES for part in parts)
    return named and not any(c in path for c in "\\:\0")


def _samples(ds: DtsReader | ArrayReader) -> Iterator[Sample]:
    """Every sample in order; pictures by whole blocks into one buffer, each block checked."""
    if isinstance(ds, ArrayReader):
        yield from (ds[i] for i in range(len(ds)))
        return
    buffer = np.empty(ds.block_size, np.uint8).data
    for k in range(ds.num_blocks):
        block = ds.readinto_block(k, buffer)
        ds.check_block(k, buffer)
        yield from block


def _write(root: Path, carried: str, folder: str, sample: int, data: memoryview | bytes, result: Extracted) -> None:
    """Write one file under its carried path, or under its number where that is missing, unsafe or taken."""
    result.samples += 1
    result.bytes += len(data)
    if carried and is_safe(carried) and "/" in carried and _write_new(root / carried, data):
        return
    if carried:
        result.renamed.append(sample)
    ending = "png" if bytes(data[:4]) == _PNG_MAGIC else "JPEG"
    number = f"{sample:08}"
    while not _write_new(root / folder / f"{number}.{ending}", data):
        number += "_"


def _write_new(path: Path, data: memoryview | bytes) -> bool:
    """Write a file that does not exist yet; False where something has its name or one of its folders' names."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _to_png(sample: Sample) -> bytes:
    pixels = np.asarray(sample.data)
    stream = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(stream, "PNG")
    return stream.getvalue()
