"""A packed image set back into a folder of class folders: the packed bytes under their source names.

Paths in a file are untrusted: one that could leave the folder, or that was already used, is replaced by a number; of a
class name that is no safe folder name the odd characters are. Where the folders' names alone would not give the labels
and class names back, CLASSES_FILE goes beside them, which `trainload.open` and `pack` follow.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainload.formats.progress import Progress
from trainload.images.classes.class_list import CLASSES_FILE, ClassList
from trainload.images.classes.folder_rules import is_hidden, is_split
from trainload.images.reading.arrays import ArrayReader
from trainload.images.reading.dts import DtsReader
from trainload.images.reading.sample import Sample
from trainload.storage.folders import AtomicFolder

MAX_PART_BYTES = 255  # one folder or file name
_ODD = "/\\:\0"  # not in one folder or file name of every system
_PNG_MAGIC = b"\x89PNG"


@dataclass(slots=True)
class Extracted:
    """What was written. renamed: samples whose carried path was unsafe, taken or of another class, by id.

    renamed_classes: the folder of each class whose name is no safe folder name.
    """

    path: str
    samples: int = 0
    bytes: int = 0
    renamed: list[int] = field(default_factory=list)
    renamed_classes: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def extract(
    ds: DtsReader | ArrayReader,
    out: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> Extracted:
    """Write every sample of `ds` into the new folder `out`, one folder per class (also for classes without samples).

    LV0 gives the source's bytes, LV1-3 the packed JPEGs, MNIST and CIFAR PNGs. Without carried paths a sample is called
    by its id. Every block is held to its CRC-32 where the file carries one. The folder has its name only when it is
    whole. progress: called with (samples done, samples in all).
    Raises UsageError where `out` is not new or empty, FormatError for damage.
    """
    names = ds.class_names
    folders = class_folders(names, ds.header.num_classes)
    renamed = {name: folder for name, folder in zip(names, folders) if name != folder}
    with AtomicFolder(out) as target:
        result = Extracted(str(target.path), renamed_classes=renamed)
        for folder in folders:
            (target.tmp_path / folder).mkdir(parents=True)
        if not _speak_for_themselves(folders, names or folders):
            (target.tmp_path / CLASSES_FILE).write_bytes(_class_list(folders, names or folders).to_json())
        for sample in _samples(ds):
            data = _to_png(sample) if isinstance(ds, ArrayReader) else sample.data
            name = names[sample.label] if names else ""
            _write(target.tmp_path, ds.source(sample.id), name, folders[sample.label], sample, data, result)
            if progress is not None:
                progress(result.samples, len(ds))
        target.commit()
    return result


def class_folders(class_names: tuple[str, ...], num_classes: int) -> list[str]:
    """A folder name per class: its name where that is safe, else with what is odd in it escaped as %XX.

    A second class of one name, and a name too long for a folder, end in % and their number. Without class names: the
    zero-padded numbers.
    """
    width = len(str(max(num_classes - 1, 0)))
    if not class_names:
        return [f"{label:0{width}}" for label in range(num_classes)]
    kept = {name for name in class_names if _is_folder_name(name)}
    folders: list[str] = []
    taken: set[str] = set()
    for label, name in enumerate(class_names):
        folder = name if name in kept else _escaped(name, label)
        while folder in taken or (folder != name and folder in kept):
            folder = f"{folder[:200]}%{label}"
        taken.add(folder)
        folders.append(folder)
    return folders


def _is_folder_name(name: str) -> bool:
    return is_safe(name) and "/" not in name and name != CLASSES_FILE


def _escaped(name: str, label: int) -> str:
    odd = _ODD + "." if name in (".", "..", CLASSES_FILE) else _ODD
    folder = "".join(f"%{ord(c):02X}" if c in odd else c for c in name) or "%"
    if len(os.fsencode(folder)) <= MAX_PART_BYTES:
        return folder
    return f"{os.fsencode(folder)[:200].decode('utf-8', 'ignore')}%{label}"


def _speak_for_themselves(folders: Sequence[str], names: Sequence[str]) -> bool:
    """True where a folder with these class folders opens to these classes in this order by their names alone."""
    plain = not any(is_hidden(folder) or is_split(folder) for folder in folders)
    return plain and list(folders) == list(names) == sorted(folders)


def _class_list(folders: Sequence[str], names: Sequence[str]) -> ClassList:
    """What CLASSES_FILE says; of classes with one name the first has it, the others are called as their folders."""
    first = {name: label for label, name in reversed([*enumerate(names)])}
    told = [name if first[name] == label else folders[label] for label, name in enumerate(names)]
    return ClassList(tuple(told), tuple(folders), "")


def _path_of(carried: str, name: str, folder: str) -> str:
    """The carried path of a sample with its class's folder in the place of the name; "" where it is another class's."""
    top, _, rest = carried.partition("/")
    if name and carried.startswith(name + "/"):
        rest = carried[len(name) + 1 :]
    elif name and top != name:
        return ""
    return f"{folder}/{rest}" if rest else ""


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


def _write(
    root: Path, carried: str, name: str, folder: str, sample: Sample, data: memoryview | bytes, result: Extracted
) -> None:
    """Write one file under its carried path, or under its number where that is missing, unsafe, taken or misplaced."""
    result.samples += 1
    result.bytes += len(data)
    path = _path_of(carried, name, folder)
    shown = is_safe(path) and not any(map(is_hidden, path.split("/")[1:]))  # a hidden file would not be read again
    if shown and _write_new(root / path, data):
        return
    if carried:
        result.renamed.append(sample.id)
    ending = "png" if bytes(data[:4]) == _PNG_MAGIC else "JPEG"
    number = f"{sample.id:08}"
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
