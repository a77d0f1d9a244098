"""MNIST and CIFAR into DTS: one file for training, one for validation, each a header, the labels and the pixels."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from isal import isal_zlib

from trainload.errors import UsageError
from trainload.images.format import rules
from trainload.images.format.class_names import CLASS_NAMES
from trainload.images.format.dts import ARRAY_HEADER_BYTES, CIFAR10, CIFAR100, MNIST, DtsHeader
from trainload.images.packing.array_sources import LabelledPixels, Originals, open_originals, read_cifar, read_mnist
from trainload.images.packing.expected_arrays import check_arrays
from trainload.storage.atomic import AtomicFile
from trainload.storage.folders import make_folders
from trainload.storage.target import check_target

ArrayKind = Literal["mnist", "cifar10", "cifar100"]


@dataclass(frozen=True, slots=True)
class _Kind:
    """What makes one set different: its files, its label bytes, where its class names stand."""

    dataset_type: str
    archive: str
    train_files: tuple[str, ...]
    test_files: tuple[str, ...]
    label_bytes: int = 1
    names_file: str = ""
    pickles: tuple[str, ...] = ()


_KINDS: dict[ArrayKind, _Kind] = {
    "mnist": _Kind(MNIST, "train-images-idx3-ubyte.gz and its three companions", (), ()),
    "cifar10": _Kind(
        CIFAR10,
        "cifar-10-binary.tar.gz",
        tuple(f"data_batch_{n}.bin" for n in range(1, 6)),
        ("test_batch.bin",),
        1,
        "batches.meta.txt",
        ("data_batch_1", "test_batch", "batches.meta"),
    ),
    "cifar100": _Kind(
        CIFAR100,
        "cifar-100-binary.tar.gz",
        ("train.bin",),
        ("test.bin",),
        2,
        "fine_label_names.txt",
        ("train", "test", "meta"),
    ),
}


def pack_arrays(
    kind: ArrayKind,
    src: str | os.PathLike[str],
    out_dir: str | os.PathLike[str],
    *,
    reference: bool = False,
    overwrite: bool = False,
    expect: str | None = None,
    val_set_prep: bool = False,
) -> list[dict[str, Any]]:
    """Write `<kind>_train.dts` and `<kind>_test.dts` into `out_dir` and give what was written, one dict per file.

    kind: "mnist", "cifar10" or "cifar100". src: a folder or tar with the original files, each gzipped or not, or a
    folder with CIFAR's archive.
    reference: write the sizes that the genuine exporter writes for MNIST (three channels' worth), byte for byte.
    overwrite: replace files that have the names. expect: `kind` again compares counts and CRC-32s with those published
    and writes nothing where they differ. val_set_prep: the header's flag of that name.
    Raises UsageError where they exist without it, for missing files and for the Python-pickle version; FormatError for
    damaged files and for all that differs from what is expected.
    """
    if kind not in _KINDS:
        raise UsageError(f"kind must be one of {', '.join(_KINDS)}, not {kind!r}")
    out = Path(out_dir)
    paths = {training: out / f"{kind}_{'train' if training else 'test'}.dts" for training in (True, False)}
    for path in paths.values():
        check_target(path, overwrite=overwrite, inputs=[src])
    with open_originals(_archive_in(src, _KINDS[kind])) as originals:
        _refuse_pickles(originals, _KINDS[kind])
        _check_class_names(originals, _KINDS[kind])
        splits = {training: _read_split(originals, _KINDS[kind], is_training=training) for training in (True, False)}
        if expect is not None:
            check_arrays(kind, expect, originals, splits)
    make_folders(out)
    written = []
    for is_training, split in splits.items():
        path = paths[is_training]
        header = _write(
            path, _KINDS[kind], split, is_training=is_training, reference=reference, val_set_prep=val_set_prep
        )
        written.append(
            {
                "path": str(path),
                "dataset": header.dataset_type,
                "samples": header.num_samples,
                "bytes": path.stat().st_size,
                "crc": f"{header.crc_code:08x}",
            }
        )
    return written


def _archive_in(src: str | os.PathLike[str], kind: _Kind) -> str:
    """The set's archive, where the folder `src` has it and not its files; else `src`."""
    archive = Path(src) / kind.archive
    if archive.is_file() and not any(next(Path(src).rglob(name), None) for name in kind.train_files + kind.pickles):
        return os.fspath(archive)
    return os.fspath(src)


def _refuse_pickles(originals: Originals, kind: _Kind) -> None:
    binary = kind.train_files + kind.test_files
    found = [name for name in kind.pickles if name in originals]
    if found and not any(name in originals for name in binary):
        raise UsageError(
            f"{', '.join(found)} in {originals.path} are Python pickles, and unpickling runs code from the file: "
            f"take the binary version, {kind.archive}"
        )


def _check_class_names(originals: Originals, kind: _Kind) -> None:
    """Where the source names its classes they must be the names that readers of the packed file will show."""
    if not kind.names_file or kind.names_file not in originals:
        return
    text = originals.read(kind.names_file).decode("utf-8", "replace")
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    expected = CLASS_NAMES[kind.dataset_type]
    if found != expected:
        raise rules.ORIGINAL_CLASSES.broken(
            field=kind.names_file,
            offset=None,
            found=", ".join(found[:10]),
            expected=", ".join(expected[:10]),
            path=originals.path,
        )


def _read_split(originals: Originals, kind: _Kind, *, is_training: bool) -> LabelledPixels:
    if kind.dataset_type == MNIST:
        return read_mnist(originals, is_training=is_training)
    names = kind.train_files if is_training else kind.test_files
    num_classes = len(CLASS_NAMES[kind.dataset_type])
    return read_cifar(originals, names, label_bytes=kind.label_bytes, num_classes=num_classes)


def _write(
    path: Path, kind: _Kind, split: LabelledPixels, *, is_training: bool, reference: bool, val_set_prep: bool
) -> DtsHeader:
    pixels = np.ascontiguousarray(split.pixels)
    labels = np.ascontiguousarray(split.labels)
    crc = isal_zlib.crc32(pixels, isal_zlib.crc32(labels))
    header = _to_header(kind, pixels.shape, is_training=is_training, crc=crc)
    header = dataclasses.replace(header, val_set_prep=int(val_set_prep))
    if reference and kind.dataset_type == MNIST:
        header = _with_genuine_sizes(header)
    with AtomicFile(path) as file:
        file.write_at(0, header.to_bytes().ljust(ARRAY_HEADER_BYTES, b"\0"))
        file.write_at(ARRAY_HEADER_BYTES, labels.data)
        file.write_at(ARRAY_HEADER_BYTES + labels.nbytes, pixels.data)
        file.commit()
    return header


def _to_header(kind: _Kind, shape: tuple[int, ...], *, is_training: bool, crc: int) -> DtsHeader:
    count, height, width, channels = shape
    block_bytes = count * (1 + height * width * channels)
    return DtsHeader(
        dataset_type=kind.dataset_type,
        is_training=is_training,
        compress_level=0,
        val_set_prep=0,
        num_classes=len(CLASS_NAMES[kind.dataset_type]),
        image_width=width,
        image_height=height,
        num_channels=channels,
        color_type="GRAY" if channels == 1 else "RGB",
        num_samples=count,
        num_volumes=1,
        volume_id=0,
        total_blocks=1,
        num_blocks=1,
        total_bytes=ARRAY_HEADER_BYTES + block_bytes,
        header_bytes=ARRAY_HEADER_BYTES,
        block_bytes=block_bytes,
        block_size=block_bytes,
        block_header_size=0,
        pic_alignment=0,
        max_pic_area=width * height,
        max_pic_per_block=count,
        compression_ratio=1.0,
        crc_code=crc,
    )


def _with_genuine_sizes(header: DtsHeader) -> DtsHeader:
    size = header.num_samples * (1 + 3 * header.image_width * header.image_height)
    return dataclasses.replace(header, total_bytes=ARRAY_HEADER_BYTES + size, block_bytes=size, block_size=size)
