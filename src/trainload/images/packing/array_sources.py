"""The original MNIST and CIFAR files as arrays: from a folder or a tar, each file gzipped or not.

Python-pickle versions of CIFAR are refused by name: unpickling runs code that the file brings.
"""

from __future__ import annotations

import gzip
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.images.format import rules

MAX_FILE_BYTES = 1 << 30  # one original file, unpacked; the largest genuine one has 153 MB
_READ_BYTES = 1 << 20
_IDX_PICTURES, _IDX_LABELS = 0x00000803, 0x00000801  # idx magic: unsigned bytes, three dimensions or one
_GZIP_MAGIC = b"\x1f\x8b"


class LabelledPixels(NamedTuple):
    """The pictures of one split: labels uint8 [n], pixels uint8 [n, h, w, c]."""

    labels: NDArray[np.uint8]
    pixels: NDArray[np.uint8]


class Originals:
    """The files of an original set, by base name without .gz, wherever they lie below a folder or in a tar."""

    def __init__(self, path: str, openers: dict[str, Callable[[], IO[bytes]]]) -> None:
        self.path = path
        self._openers = openers

    def __contains__(self, name: str) -> bool:
        return _base(name) in self._openers

    def read(self, name: str) -> bytes:
        """The unpacked bytes of one file. Raises UsageError where it is missing, FormatError where it is damaged."""
        opener = self._openers.get(_base(name))
        if opener is None:
            raise UsageError(f"{name} (or {name}.gz) is missing in {self.path}")
        with _bad_archives_are_format_errors(name, self.path), opener() as raw:
            head = raw.read(2)
            raw.seek(0)
            return _read_limited(gzip.GzipFile(fileobj=raw) if head == _GZIP_MAGIC else raw)


@contextmanager
def _bad_archives_are_format_errors(field: str, path: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, _TooLargeError) as error:
        raise rules.ORIGINAL_UNPACK.broken(
            field=field,
            offset=None,
            found=error,
            expected=f"at most {MAX_FILE_BYTES:,} bytes of undamaged data",
            path=path,
        ) from error


class _TooLargeError(Exception):
    pass


def _read_limited(file: IO[bytes] | gzip.GzipFile) -> bytes:
    parts, size = [], 0
    while part := file.read(_READ_BYTES):
        parts.append(part)
        size += len(part)
        if size > MAX_FILE_BYTES:
            raise _TooLargeError(f"more than {MAX_FILE_BYTES:,} bytes")
    return b"".join(parts)


@contextmanager
def open_originals(path: str) -> Iterator[Originals]:
    """The original files of a folder or a tar (.tar, .tar.gz, .tgz). Raises UsageError for anything else."""
    if Path(path).is_dir():
        files = {_base(p.name): p for p in sorted(Path(path).rglob("*")) if p.is_file()}
        yield Originals(path, {name: _opener(file) for name, file in files.items()})
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            with _bad_archives_are_format_errors("tar", path):
                members = {_base(m.name.rpartition("/")[2]): m for m in tar if m.isfile()}
            yield Originals(path, {name: _member_opener(tar, member) for name, member in members.items()})
    else:
        raise UsageError(f"neither a folder nor a tar of the original files: {path}")


def _base(name: str) -> str:
    """A file's name as all its spellings share it: train-images.idx3-ubyte.gz and train-images-idx3-ubyte are one."""
    return name.removesuffix(".gz").replace("-ubyte", "").replace(".idx", "-idx")


def _opener(path: Path) -> Callable[[], IO[bytes]]:
    return lambda: path.open("rb")


def _member_opener(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def open_member() -> IO[bytes]:
        file = tar.extractfile(member)
        assert file is not None  # a regular file, chosen by isfile()
        return file

    return open_member


def read_mnist(originals: Originals, *, is_training: bool) -> LabelledPixels:
    """One split of MNIST (or a set in its form, such as Fashion-MNIST) from its two idx files."""
    prefix = "train" if is_training else "t10k"
    pixels = _parse_idx(originals, f"{prefix}-images-idx3-ubyte", _IDX_PICTURES, (28, 28))
    labels = _parse_idx(originals, f"{prefix}-labels-idx1-ubyte", _IDX_LABELS, ())
    if len(pixels) != len(labels):
        raise rules.IDX_COUNT.broken(
            field=f"{prefix} count",
            offset=4,
            found=f"{len(labels):,} labels",
            expected=f"{len(pixels):,}",
            path=originals.path,
        )
    _check_labels(labels, 10, prefix, originals.path)
    return LabelledPixels(labels, pixels[..., None])


def _parse_idx(originals: Originals, name: str, magic: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    data = originals.read(name)
    count_of_numbers = 2 + len(shape)
    head = struct.Struct(f">{count_of_numbers}I")
    numbers = head.unpack_from(data) if len(data) >= head.size else ()
    good = len(numbers) == count_of_numbers and numbers[0] == magic and numbers[2:] == shape
    picture_bytes = int(np.prod(shape, dtype=np.int64))
    if not good or len(data) != head.size + numbers[1] * picture_bytes:
        raise rules.IDX_SIZE.broken(
            field=name,
            offset=0,
            found=f"numbers {numbers} in {len(data):,} bytes",
            expected=f"{magic:#06x}, a count, {shape} and as many bytes",
            path=originals.path,
        )
    return np.frombuffer(data, np.uint8, offset=head.size).reshape(numbers[1], *shape)


def read_cifar(originals: Originals, names: tuple[str, ...], *, label_bytes: int, num_classes: int) -> LabelledPixels:
    """One split of CIFAR from the binary version's files; of two label bytes the last one (the fine label) counts."""
    record = label_bytes + 3 * 32 * 32
    labels, pixels = [], []
    for name in names:
        data = originals.read(name)
        if not data or len(data) % record:
            raise rules.CIFAR_RECORDS.broken(
                field=name,
                offset=len(data) - len(data) % record,
                found=f"{len(data):,} bytes",
                expected=f"a multiple of {record:,}",
                path=originals.path,
            )
        records = np.frombuffer(data, np.uint8).reshape(-1, record)
        labels.append(records[:, label_bytes - 1])
        pixels.append(records[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        _check_labels(labels[-1], num_classes, name, originals.path)
    return LabelledPixels(np.concatenate(labels), np.concatenate(pixels))


def _check_labels(labels: NDArray[np.uint8], num_classes: int, name: str, path: str) -> None:
    wrong = np.flatnonzero(labels >= num_classes)
    if len(wrong):
        n = int(wrong[0])
        raise rules.ORIGINAL_LABEL.broken(
            field=f"{name}: label {n}",
            offset=None,
            found=int(labels[n]),
            expected=f"below {num_classes}",
            path=path,
        )
