"""An MNIST or CIFAR set, read: all labels when it opens, all pixels when they are first asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.formats.findings import Report
from trainload.images.checking.arrays import verify_array
from trainload.images.files.volumes import read_header
from trainload.images.format import rules
from trainload.images.format.class_names import CLASS_NAMES
from trainload.images.format.dts import DtsHeader
from trainload.images.reading.describe import in_html, in_one_line, size_text
from trainload.images.reading.facts import header_facts
from trainload.images.reading.sample import Sample
from trainload.storage.location import open_source


class ArrayReader:
    """An open MNIST or CIFAR file in DTS form. Safe for many threads; pickles as its path.

    len(ds) samples; ds[i] is one Sample whose data are the pixels, by one read. labels: int32 [n].
    pixels: uint8 [n, h, w, c]. class_names: as the data set's authors give them. header: the file's header.
    Raises FormatError for a file that breaks docs/spec/dts.md.
    """

    verified_files: frozenset[str] = frozenset()  # identities of the files that were compared whole

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._source = open_source(path)
        self.path = self._source.path
        self.paths = (self.path,)
        try:
            self.header = read_header(self._source)
            self.labels = self._read_labels(self.header)
        except BaseException:
            self._source.close()
            raise
        self.level = self.header.compress_level
        self.class_names = CLASS_NAMES[self.header.dataset_type]
        self.picture_shape = (self.header.image_height, self.header.image_width, self.header.num_channels)

    def _read_labels(self, header: DtsHeader) -> NDArray[np.int32]:
        if header.holds_pictures:
            raise UsageError(f"{self.path} holds pictures in blocks: open it with DtsReader")
        labels = np.frombuffer(self._source.read_at(header.header_bytes, header.num_samples), np.uint8)
        wrong = np.flatnonzero(labels >= header.num_classes)
        if len(wrong):
            n = int(wrong[0])
            raise rules.LABEL.broken(
                field=f"labels[{n}]",
                offset=header.header_bytes + n,
                found=int(labels[n]),
                expected=f"below num_classes = {header.num_classes}",
                path=self.path,
            )
        return labels.astype(np.int32)

    @cached_property
    def pixels(self) -> NDArray[np.uint8]:
        """All pictures, uint8 [n, h, w, c], read once in 4 MB reads."""
        pixels = np.empty((len(self), *self.picture_shape), np.uint8)
        if len(self):
            self._source.readinto_at(self._pixel_offset, pixels.data)
        return pixels

    @cached_property
    def crc(self) -> int:
        """The CRC-32 of labels and pixels, as `header.crc_code` states it; brings the pixels into memory."""
        return isal_zlib.crc32(self.pixels, isal_zlib.crc32(self.labels.astype(np.uint8)))

    def check_crc(self) -> None:
        """Raise ChecksumError where labels or pixels are not what was written. Costs 0.1 ms, once."""
        if self.crc != self.header.crc_code:
            raise rules.ARRAY_CRC.broken(
                field="crc_code",
                offset=self.header.header_bytes,
                found=f"{self.crc:#010x}",
                expected=f"{self.header.crc_code:#010x}",
                path=self.path,
            )

    @property
    def _pixel_offset(self) -> int:
        return self.header.header_bytes + self.header.num_samples

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Sample]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, i: int) -> Sample:
        if not -len(self) <= i < len(self):
            raise IndexError(f"{i} is outside 0 to {len(self) - 1}")
        i = int(i) % len(self)
        height, width, channels = self.picture_shape
        size = height * width * channels
        data = self._source.read_at(self._pixel_offset + i * size, size)
        return Sample(memoryview(data).cast("B", self.picture_shape), int(self.labels[i]), i)

    def source(self, i: int) -> str:
        """Always "": these sets come from arrays, not from files."""
        return ""

    def verify(self) -> Report:
        """Check every byte of the file against its header and CRC-32."""
        return verify_array(self.path)

    def facts(self) -> dict[str, Any]:
        """What `trainload info` shows, as JSON values."""
        counts = np.bincount(self.labels, minlength=self.header.num_classes)
        return {
            "format": "DTS array",
            "path": self.path,
            "dataset": self.header.dataset_type,
            "split": "train" if self.header.is_training else "val",
            "samples": len(self),
            "picture_shape": list(self.picture_shape),
            "classes": self.header.num_classes,
            "class_names": list(self.class_names),
            "samples_per_class": counts.tolist(),
            "bytes": self._source.size,
            "crc": f"{self.header.crc_code:08x}",
            "genuine_mnist_sizes": self.header.block_bytes != self.header.num_samples + self.header.pixel_bytes,
            "headers": [header_facts(self.header)],
        }

    def close(self) -> None:
        """Close the file; closing twice is fine. Arrays that were read stay valid."""
        self._source.close()

    def __enter__(self) -> ArrayReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[ArrayReader], tuple[str], dict[str, frozenset[str]]]:
        return ArrayReader, (self.path,), {"verified_files": self.verified_files}

    def __repr__(self) -> str:
        return in_one_line("ArrayReader", self.path, self._shown())

    def _repr_html_(self) -> str:
        return in_html("ArrayReader", self.path, self._shown(), self.class_names)

    def _shown(self) -> dict[str, str]:
        return {
            "data set": self.header.dataset_type,
            "samples": f"{len(self):,}",
            "classes": f"{self.header.num_classes:,}",
            "pixels": " x ".join(map(str, self.picture_shape)),
            "size": size_text(self._source.size),
        }
