"""What a DTS file says about itself beyond the genuine header: class names, source paths, block CRCs, parameters.

Genuine files carry nothing of it; then every value here is empty. Unpacks the paths only when they are asked for.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.codecs.compression import zstd_decompress
from trainload.errors import FormatError
from trainload.formats import dts
from trainload.formats.fields import Checker
from trainload.formats.limits import MAX_SECTION_BYTES
from trainload.storage.source import Source

MAX_NAME_BYTES = 4096  # one class name or source path, with its NUL


class Extension:
    """The sections of one volume, checked against its header when they are read.

    Raises FormatError where a section breaks docs/spec/dts.md.
    """

    def __init__(self, sections: dict[bytes, bytes], header: dts.DtsHeader, path: str) -> None:
        self._sections = sections
        self._header = header
        self._check = Checker(path)
        self._names: Names | None = None

    @staticmethod
    def read(source: Source, header: dts.DtsHeader) -> Extension:
        """Read the extension of an open file; an empty one where the file carries none (at most 16 MB are read)."""
        sections: dict[bytes, bytes] = {}
        if header.holds_pictures:
            head = source.read_at(dts.EXTENSION_OFFSET, dts.EXTENSION_HEAD_BYTES)
            size = dts.extension_size_from_bytes(head, path=source.path)
            body = source.read_at(dts.EXTENSION_OFFSET + dts.EXTENSION_HEAD_BYTES, size)
            sections = dts.extension_from_bytes(body, path=source.path)
        return Extension(sections, header, source.path)

    @property
    def tags(self) -> tuple[str, ...]:
        """The section tags that the file carries, in file order."""
        return tuple(tag.decode("ascii", "backslashreplace") for tag in self._sections)

    def uuid(self) -> str:
        """The file's UUID as text, "" where it carries none."""
        body = self._sections.get(dts.TAG_UUID)
        if body is None:
            return ""
        self._require_size(dts.TAG_UUID, len(body), 16)
        return str(uuid.UUID(bytes=body))

    def class_names(self) -> tuple[str, ...]:
        """One name per class in label order, or () where the file carries none."""
        count = self._header.num_classes
        names = self._unpack_names(dts.TAG_CLASSES, count)
        return () if names is None else tuple(names[n] for n in range(count))

    def block_crcs(self) -> NDArray[np.uint32] | None:
        """CRC-32 of each block, uint32 [num_blocks], or None where the file carries none."""
        table = self._block_table()
        return None if table is None else table[:, 1]

    def check_block_counts(self, counts: NDArray[np.int64]) -> None:
        """Raise FormatError where the extension's picture counts differ from those of the block headers."""
        table = self._block_table()
        if table is None:
            return
        wrong = np.flatnonzero(table[:, 0] != counts)
        if len(wrong):
            k = int(wrong[0])
            self._check.require(
                False, f"block {k} must hold as many pictures as the extension says", field=f"BLKS num_pics[{k}]",
                offset=None, found=int(table[k, 0]), expected=int(counts[k]),
            )  # fmt: skip

    def source_path(self, n: int) -> str:
        """The source path of picture `n` of this volume, "" where the file carries none. The first call unpacks all."""
        if dts.TAG_PATHS not in self._sections:
            return ""
        if self._names is None:
            self._names = self._unpack_names(dts.TAG_PATHS, self._header.num_samples)
        return "" if self._names is None else self._names[n]

    def parameters(self) -> dict[str, Any]:
        """How the file was packed, {} where it does not say."""
        body = self._sections.get(dts.TAG_PARAMETERS)
        if body is None:
            return {}
        try:
            values = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            values = error
        good = isinstance(values, dict)
        self._check.require(
            good, "the pack parameters must be one JSON object", field="PARM", offset=None, found=values, expected="{}"
        )
        return dict(values)

    def _block_table(self) -> NDArray[np.uint32] | None:
        body = self._sections.get(dts.TAG_BLOCKS)
        if body is None:
            return None
        self._require_size(dts.TAG_BLOCKS, len(body), 8 * self._header.num_blocks)
        return np.frombuffer(body, "<u4").reshape(-1, 2)

    def _unpack_names(self, tag: bytes, count: int) -> Names | None:
        body = self._sections.get(tag)
        if body is None:
            return None
        field = tag.decode("ascii")
        limit = min(MAX_SECTION_BYTES, count * MAX_NAME_BYTES)
        try:
            names = Names(zstd_decompress(body, limit))
        except ValueError as error:
            raise FormatError(
                "a name section must unpack", field=field, offset=None, found=error, expected=f"{count:,} names",
                path=self._check.path,
            ) from error  # fmt: skip
        self._check.require(
            len(names) == count, "a name section must hold one name each", field=field, offset=None,
            found=f"{len(names):,} names", expected=f"{count:,} names",
        )  # fmt: skip
        return names

    def _require_size(self, tag: bytes, found: int, expected: int) -> None:
        self._check.require(
            found == expected, "a section must have the size that its kind has", field=tag.decode("ascii"), offset=None,
            found=f"{found:,} bytes", expected=f"{expected:,} bytes",
        )  # fmt: skip


class Names:
    """NUL-ended UTF-8 names in one buffer: a million of them cost no Python objects."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, n: int) -> str:
        start = int(self._ends[n - 1]) + 1 if n else 0
        return self._data[start : int(self._ends[n])].decode("utf-8", "surrogateescape")
