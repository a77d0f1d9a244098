"""The DTS writer: finished blocks in, a file under its name out. Knows no pictures' sources and no processes.

The law is docs/spec/dts.md. Blocks go to `<path>.tmp` as they come; the header, which needs all of them, goes in last.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.codecs.compression import zstd_compress
from trainload.errors import FormatError
from trainload.images.classes.packed_names import most_name_bytes
from trainload.images.format import dts
from trainload.images.packing.journal import BlockRecord
from trainload.storage.atomic import AtomicFile, tmp_name
from trainload.storage.file import FileSource

UUID_NAMESPACE = uuid.UUID("6f1d1c3e-52a5-5b0e-9c36-1f3f2b7a4d90")
PATHS_COMPRESSION = (3, 19)  # Zstandard levels, tried in turn until the paths fit
REFERENCE_MAX_AREA = {True: 31_667_328, False: 18_248_230}  # what the genuine exporter writes at level 0: train, val


@dataclass(frozen=True, slots=True)
class SetFacts:
    """What all volumes of a set share. labels: int32, of every picture of the source; sizes: int64, bytes of each."""

    level: int
    is_training: bool
    reference: bool
    class_names: tuple[str, ...]
    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    block_header_size: int
    parameters: dict[str, Any]
    val_set_prep: bool


@dataclass(slots=True)
class Volume:
    """One file of a set, while it is written: its records, and the CRC-32 of all its blocks so far."""

    path: Path
    records: list[BlockRecord] = field(default_factory=list)
    crc: int = 0

    @property
    def tmp_path(self) -> Path:
        return tmp_name(self.path)

    @property
    def num_samples(self) -> int:
        return sum(len(record.pictures) for record in self.records)

    @property
    def total_bytes(self) -> int:
        return dts.IMAGE_HEADER_BYTES + len(self.records) * dts.BLOCK_SIZE

    def pictures(self) -> NDArray[np.int64]:
        """Source positions of the volume's samples, in file order, int64."""
        parts = [record.pictures for record in self.records]
        return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)

    def add(self, file: AtomicFile, block: bytearray, record: BlockRecord) -> None:
        """Write the next block to its place."""
        file.write_at(self.total_bytes, block)
        self._count(block, record)

    def take_over(self, records: Iterable[BlockRecord]) -> None:
        """Count the blocks that an earlier run left in the .tmp file, up to the first that is not what it should be.

        A run that was killed between the renames of several volumes left the finished ones under their final names.
        """
        records = list(records)
        for path in (self.tmp_path, self.path):
            if records and path.exists():
                self._take_over(path, records)
                if path == self.path and len(self.records) == len(records):
                    path.replace(self.tmp_path)
                elif path == self.path:
                    self.records, self.crc = [], 0
                return

    def _take_over(self, path: Path, records: list[BlockRecord]) -> None:
        block = bytearray(dts.BLOCK_SIZE)
        with FileSource(path) as source:
            for record in records:
                try:
                    source.readinto_at(self.total_bytes, block)
                except FormatError:  # the file ends before
                    return
                if isal_zlib.crc32(block) != record.crc:
                    return
                self._count(block, record)

    def _count(self, block: bytearray, record: BlockRecord) -> None:
        self.crc = isal_zlib.crc32(block, self.crc)
        self.records.append(record)


def write_header(file: AtomicFile, facts: SetFacts, volumes: list[Volume], volume_id: int, names: list[str]) -> bool:
    """Write the header region of one volume and set the file's length. False where the names found no room.

    names: the source path of each sample, in file order; unused in reference mode, which writes no extension.
    """
    volume = volumes[volume_id]
    header = _header(facts, volumes, volume_id)
    file.truncate(volume.total_bytes)
    if facts.reference:
        file.write_at(0, dts.header_region_to_bytes(header, []))
        return True
    sections = _sections(facts, volumes, volume)
    packed = dts.names_to_bytes(names)
    fits = len(packed) <= most_name_bytes(dts.TAG_PATHS, len(names), volume.total_bytes)
    for level in PATHS_COMPRESSION if fits else ():
        paths = zstd_compress(packed, level)
        try:
            region = dts.header_region_to_bytes(header, [*sections, (dts.TAG_PATHS, paths)])
        except ValueError:
            continue
        file.write_at(0, region)
        return True
    file.write_at(0, dts.header_region_to_bytes(header, sections))
    return False


def _sections(facts: SetFacts, volumes: list[Volume], volume: Volume) -> list[tuple[bytes, bytes]]:
    crcs = [np.empty(0, np.uint32), *(record.picture_crcs for record in volume.records)]
    return [
        (dts.TAG_UUID, set_uuid(facts, volumes).bytes),
        (dts.TAG_PARAMETERS, json.dumps(facts.parameters, sort_keys=True).encode()),
        (dts.TAG_BLOCKS, _block_table(volume)),
        (dts.TAG_PICTURES, np.concatenate(crcs).astype("<u4").tobytes()),
        (dts.TAG_CLASSES, zstd_compress(dts.names_to_bytes(list(facts.class_names)))),
    ]


def set_uuid(facts: SetFacts, volumes: list[Volume]) -> uuid.UUID:
    """The set's UUID, the same in all its volumes: made from its blocks and parameters, so equal packs are equal."""
    content = hashlib.sha256(json.dumps(facts.parameters, sort_keys=True).encode())
    for volume in volumes:
        content.update(_block_table(volume))
    return uuid.uuid5(UUID_NAMESPACE, content.hexdigest())


def _block_table(volume: Volume) -> bytes:
    rows = [(len(record.pictures), record.crc) for record in volume.records]
    return np.array(rows, "<u4").reshape(-1, 2).tobytes()


def _header(facts: SetFacts, volumes: list[Volume], volume_id: int) -> dts.DtsHeader:
    volume = volumes[volume_id]
    num_blocks = len(volume.records)
    counts = [len(record.pictures) for record in volume.records]
    max_area = max(record.max_area for record in volume.records)
    if facts.reference and facts.level == 0:
        max_area = REFERENCE_MAX_AREA[facts.is_training]
    if facts.reference and facts.level > 0:
        counts = counts[:-1]  # the genuine exporter forgets the last block
    source_bytes = int(facts.sizes[volume.pictures()].sum())
    return dts.DtsHeader(
        dataset_type=dts.IMAGENET,
        is_training=facts.is_training,
        compress_level=facts.level,
        val_set_prep=int(facts.val_set_prep),
        num_classes=len(facts.class_names),
        image_width=0,
        image_height=0,
        num_channels=3,
        color_type="RGB",
        num_samples=volume.num_samples,
        num_volumes=len(volumes),
        volume_id=volume_id,
        total_blocks=sum(len(other.records) for other in volumes),
        num_blocks=num_blocks,
        total_bytes=volume.total_bytes,
        header_bytes=dts.IMAGE_HEADER_BYTES,
        block_bytes=num_blocks * dts.BLOCK_SIZE,
        block_size=dts.BLOCK_SIZE,
        block_header_size=facts.block_header_size,
        pic_alignment=dts.PICTURE_ALIGNMENT,
        max_pic_area=min(max_area, 0xFFFFFFFF),
        max_pic_per_block=max(counts, default=0),
        compression_ratio=volume.total_bytes / max(source_bytes, 1),
        crc_code=volume.crc,
    )
