"""What a DTS file says about itself beyond the genuine header: class names, source paths, block CRCs, parameters.

Genuine files carry nothing of it; then every value here is empty. Unpacks the paths only when they are asked for.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.formats.fields import Checker
from trainload.formats.sections import HEAD_BYTES, sections_from_bytes
from trainload.images.classes.packed_names import Names, unpack_names
from trainload.images.format import dts, rules
from trainload.images.format.sample_table import SampleTable
from trainload.storage.source import Source

MAX_PARAMETERS_BYTES = 1 << 20
EXTENSION_START = dts.EXTENSION_OFFSET + dts.EXTENSION_HEAD_BYTES  # where the section list starts

Sections = list[tuple[bytes, bytes]]  # tag, body


def read_header_region(source: Source) -> bytes:
    """Byte 0 to the end of the extension; of a file without one the first 272 bytes, or fewer where it ends before.

    Raises FormatError for an extension that is longer than the header region or the file.
    """
    head = source.read_at(0, min(EXTENSION_START, source.size))
    if len(head) < EXTENSION_START:
        return head
    size = dts.extension_size_from_bytes(head[dts.EXTENSION_OFFSET :], path=source.path)
    return source.read_at(0, EXTENSION_START + size) if size else head


def parse_sections(region: bytes, path: str) -> Sections:
    """The sections of a header region as `read_header_region` gives it. Raises FormatError, also for a tag twice."""
    sections = sections_from_bytes(region[EXTENSION_START:], path=path, offset=EXTENSION_START)
    tags = [tag for tag, _ in sections]
    Checker(path).require(
        len(set(tags)) == len(tags),
        rules.EXTENSION_TAGS,
        field="sections",
        offset=EXTENSION_START,
        found=tags,
        expected="different tags",
    )
    return sections


def check_header_crc(region: bytes, sections: Sections, path: str) -> None:
    """Raise FormatError unless the section list, if there is one, is closed by the CRC-32 of all bytes before it."""
    if not sections:
        return
    tag, body = sections[-1]
    start = len(region) - HEAD_BYTES - len(body)
    check = Checker(path)
    check.require(
        tag == dts.TAG_HEADER_CRC and len(body) == 4,
        rules.EXTENSION_END,
        field="HCRC",
        offset=start,
        found=f"section {tag!r} of {len(body):,} bytes",
        expected="HCRC of 4 bytes",
    )
    found, expected = isal_zlib.crc32(memoryview(region)[:start]), int.from_bytes(body, "little")
    check.require(
        found == expected,
        rules.EXTENSION_CRC,
        size=start,
        field="HCRC",
        offset=0,
        found=f"{found:#010x}",
        expected=f"{expected:#010x}",
    )


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
        if not header.holds_pictures:
            return Extension({}, header, source.path)
        region = read_header_region(source)
        sections = parse_sections(region, source.path)
        check_header_crc(region, sections, source.path)
        return Extension(dict(sections), header, source.path)

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

    def picture_crcs(self) -> NDArray[np.uint32] | None:
        """CRC-32 of each picture's bytes, uint32 [num_samples], or None where the file carries none."""
        body = self._sections.get(dts.TAG_PICTURES)
        if body is None:
            return None
        self._require_size(dts.TAG_PICTURES, len(body), 4 * self._header.num_samples)
        return np.frombuffer(body, "<u4")

    def block_counts(self) -> NDArray[np.uint32] | None:
        """Pictures in each block, uint32 [num_blocks], or None where the file carries none."""
        table = self._block_table()
        return None if table is None else table[:, 0]

    def check_block_counts(self, counts: NDArray[np.int64]) -> None:
        """Raise FormatError where the extension's picture counts differ from those of the block headers."""
        stated = self.block_counts()
        if stated is None:
            return
        wrong = np.flatnonzero(stated != counts)
        if len(wrong):
            k = int(wrong[0])
            self._check.require(
                False,
                rules.EXTENSION_COUNTS,
                block=k,
                field=f"BLKS num_pics[{k}]",
                offset=None,
                found=int(stated[k]),
                expected=int(counts[k]),
            )

    def unpack_paths(self) -> Names | None:
        """The source paths of all pictures of this volume, None where the file carries none; unpacked once."""
        if self._names is None:
            self._names = self._unpack_names(dts.TAG_PATHS, self._header.num_samples)
        return self._names

    def source_path(self, n: int) -> str:
        """The source path of picture `n` of this volume, "" where the file carries none."""
        names = self.unpack_paths()
        return "" if names is None else names[n]

    def parameters(self) -> dict[str, Any]:
        """How the file was packed, {} where it does not say."""
        body = self._sections.get(dts.TAG_PARAMETERS)
        if body is None:
            return {}
        self._check.limit(len(body), MAX_PARAMETERS_BYTES, field="PARM", offset=None)
        try:
            values = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            values = error
        good = isinstance(values, dict)
        self._check.require(good, rules.EXTENSION_PARAMETERS, field="PARM", offset=None, found=values, expected="{}")
        return dict(values)

    def sample_table(self) -> tuple[SampleTable, NDArray[np.int64]] | None:
        """The table of all samples and their labels, int64 [n]; None where the file carries none.

        Raises FormatError for a table that cannot be, and where labels follow neither from it nor from the paths.
        """
        body = self._sections.get(dts.TAG_TABLE)
        if body is None or self.block_counts() is None:
            return None
        table = SampleTable.from_bytes(body, self._header, path=self._check.path)
        labels = self._labels_of_paths() if table.labels is None else table.labels
        wrong = np.flatnonzero((labels < 0) | (labels >= self._header.num_classes))
        if len(wrong):
            self._check.require(
                False,
                rules.TABLE_LABEL,
                field=f"TABL label[{wrong[0]}]",
                offset=None,
                found=int(labels[wrong[0]]),
                expected=f"below num_classes = {self._header.num_classes:,}",
            )
        return table, labels

    def _labels_of_paths(self) -> NDArray[np.int64]:
        """The label of each sample by the class that its path begins with; -1 where that is none."""
        names = self.unpack_paths()
        if names is None:
            return np.full(self._header.num_samples, -1, np.int64)
        label_of = {name: label for label, name in enumerate(self.class_names())}
        found = (label_of.get(names[n].partition("/")[0], -1) for n in range(len(names)))
        return np.fromiter(found, np.int64, len(names))

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
        return unpack_names(tag, body, count, file_size=self._header.total_bytes, path=self._check.path)

    def _require_size(self, tag: bytes, found: int, expected: int) -> None:
        self._check.require(
            found == expected,
            rules.EXTENSION_SIZE,
            field=tag.decode("ascii"),
            offset=None,
            found=f"{found:,} bytes",
            expected=f"{expected:,} bytes",
        )
