"""Checks every byte of an MNIST or CIFAR file in DTS form: CRC-32, labels, and each header field against the others.

The header of these files carries no checksum, so each field is held to the one value that the others leave it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from isal import isal_zlib

from trainload.errors import FormatError
from trainload.formats.findings import Finding, Report
from trainload.images.files.volumes import read_header
from trainload.images.format import rules
from trainload.images.format.dts import ARRAY_HEADER_BYTES, HEADER_BYTES_USED, DtsHeader
from trainload.storage.location import open_source
from trainload.storage.source import Source

_STANDARD_SPLITS = {
    ("MNIST", 60_000): True,
    ("MNIST", 10_000): False,
    ("CIFAR10", 50_000): True,
    ("CIFAR10", 10_000): False,
    ("CIFAR100", 50_000): True,
    ("CIFAR100", 10_000): False,
}
_NUM_CLASSES = {"MNIST": 10, "CIFAR10": 10, "CIFAR100": 100}
_READ_BYTES = 16 << 20


def verify_array(path: str) -> Report:
    """Check one file whole. Memory: 16 MB. Raises OSError only; damage is in the Report."""
    report = Report(path)
    with open_source(path) as source:
        report.checked = {"bytes": source.size}
        try:
            header = read_header(source)
        except FormatError as error:
            report.findings.append(Finding.from_error(error))
            return report
        report.checked["samples"] = header.num_samples
        report.findings += _check_header(source, header)
        report.findings += _check_labels(source, header)
        crc = _crc_of_data(source, header.header_bytes)
        if crc != header.crc_code:
            report.findings.append(
                Finding.of(
                    rules.ARRAY_CRC,
                    "crc_code",
                    header.header_bytes,
                    f"{crc:#010x}",
                    f"{header.crc_code:#010x}",
                    path,
                    end=source.size,
                )
            )
    return report


def _crc_of_data(source: Source, start: int) -> int:
    crc = 0
    for offset in range(start, source.size, _READ_BYTES):
        crc = isal_zlib.crc32(source.read_at(offset, min(_READ_BYTES, source.size - offset)), crc)
    return crc


def _check_header(source: Source, header: DtsHeader) -> Iterator[Finding]:
    data_bytes = header.num_samples + header.pixel_bytes
    sizes = [data_bytes]
    if header.dataset_type == "MNIST":  # genuine files state three channels' worth
        sizes.append(header.num_samples + 3 * header.pixel_bytes)
    is_training = _STANDARD_SPLITS.get((header.dataset_type, header.num_samples), header.is_training)
    for field, found, expected in (
        ("is_training", header.is_training, [is_training]),
        ("compress_level", header.compress_level, [0]),
        ("val_set_prep", header.val_set_prep, [0]),
        ("num_classes", header.num_classes, [_NUM_CLASSES[header.dataset_type]]),
        ("num_volumes", header.num_volumes, [1]),
        ("total_blocks", header.total_blocks, [1]),
        ("total_bytes", header.total_bytes, [header.header_bytes + size for size in sizes]),
        ("block_bytes", header.block_bytes, sizes),
        ("block_size", header.block_size, [header.block_bytes]),
        ("block_header_size", header.block_header_size, [0]),
        ("pic_alignment", header.pic_alignment, [0]),
        ("max_pic_area", header.max_pic_area, [header.image_width * header.image_height]),
        ("max_pic_per_block", header.max_pic_per_block, [header.num_samples]),
        ("compression_ratio", header.compression_ratio, [1.0]),
        ("normalize_mean", header.to_bytes()[116:140].hex(), ["00" * 24]),
    ):
        if found not in expected:
            text = " or ".join(str(value) for value in dict.fromkeys(expected))
            yield Finding.of(rules.HEADER_OTHERS, field, None, str(found), text, source.path)
    if header.total_bytes != header.header_bytes + header.block_bytes:
        yield Finding.of(
            rules.HEADER_OTHERS,
            "total_bytes",
            None,
            f"{header.total_bytes:,}",
            f"{header.header_bytes + header.block_bytes:,}",
            source.path,
        )
    if source.read_at(0, HEADER_BYTES_USED) != header.to_bytes():
        yield Finding.of(
            rules.HEADER_BYTES,
            "header",
            0,
            "other bytes",
            header.to_bytes().hex(),
            source.path,
            end=HEADER_BYTES_USED,
        )
    rest = np.frombuffer(source.read_at(HEADER_BYTES_USED, ARRAY_HEADER_BYTES - HEADER_BYTES_USED), np.uint8)
    if rest.any():
        offset = HEADER_BYTES_USED + int(np.argmax(rest != 0))
        yield Finding.of(
            rules.HEADER_REST,
            "header region",
            offset,
            f"{rest.max():#04x}",
            "0",
            source.path,
            end=ARRAY_HEADER_BYTES,
        )


def _check_labels(source: Source, header: DtsHeader) -> Iterator[Finding]:
    labels = np.frombuffer(source.read_at(header.header_bytes, header.num_samples), np.uint8)
    for n in np.flatnonzero(labels >= header.num_classes)[:10].tolist():
        yield Finding.of(
            rules.LABEL,
            f"labels[{n}]",
            header.header_bytes + n,
            str(labels[n]),
            f"below num_classes = {header.num_classes}",
            source.path,
            sample=n,
        )
