"""The DTS header region of a volume, from the finished blocks of all volumes: pure. The law is docs/spec/dts.md."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainload.codecs.compression import zstd_compress
from trainload.images.classes.packed_names import most_name_bytes
from trainload.images.format import dts
from trainload.images.format.sample_table import SampleTable
from trainload.images.packing.journal import BlockRecord
from trainload.storage.volume_sink import VolumeShape

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
    """One file of a set, while it is written: its finished blocks."""

    records: list[BlockRecord] = field(default_factory=list)

    @property
    def num_samples(self) -> int:
        return sum(len(record.pictures) for record in self.records)

    @property
    def total_bytes(self) -> int:
        return shape().end(len(self.records))

    @property
    def crcs(self) -> list[int]:
        """The CRC-32 of each block."""
        return [record.crc for record in self.records]

    @property
    def crc(self) -> int:
        """The CRC-32 of all blocks."""
        return reduce(lambda whole, crc: isal_zlib.crc32_combine(whole, crc, dts.BLOCK_SIZE), self.crcs, 0)

    def pictures(self) -> NDArray[np.int64]:
        """Source positions of the volume's samples, in file order, int64."""
        parts = [record.pictures for record in self.records]
        return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


def shape() -> VolumeShape:
    """What every volume looks like from outside."""
    return VolumeShape(dts.IMAGE_HEADER_BYTES, dts.BLOCK_SIZE)


def header_region(facts: SetFacts, volumes: list[Volume], volume_id: int, names: list[str]) -> tuple[bytes, bool]:
    """The header region of one volume, and False where the names found no room in it.

    names: the source path of each sample, in file order; unused in reference mode, which writes no extension.
    """
    volume = volumes[volume_id]
    header = _header(facts, volumes, volume_id)
    if facts.reference:
        return dts.header_region_to_bytes(header, []), True
    sections = _sections(facts, volumes, volume)
    for more in _optional_sections(facts, volume, names):
        try:
            region = dts.header_region_to_bytes(header, [*sections, *more])
        except ValueError:  # no room
            continue
        return region, any(tag == dts.TAG_PATHS for tag, _ in more)
    raise AssertionError("a header without optional sections has room")


def _optional_sections(facts: SetFacts, volume: Volume, names: list[str]) -> Iterator[list[tuple[bytes, bytes]]]:
    """What is written where it has room, the best first: paths and the table of samples, both, one, none."""
    labels = facts.labels[volume.pictures()].astype(np.int64)
    sizes = np.concatenate([np.empty(0, np.uint32), *(record.sizes for record in volume.records)]).astype(np.int64)
    whole = (dts.TAG_TABLE, SampleTable(sizes, labels).to_bytes())
    packed = dts.names_to_bytes(names)
    if len(packed) <= most_name_bytes(dts.TAG_PATHS, len(names), volume.total_bytes):
        for level in PATHS_COMPRESSION:
            paths = (dts.TAG_PATHS, zstd_compress(packed, level))
            yield [paths, whole]
        if all(name.partition("/")[0] == facts.class_names[label] for name, label in zip(names, labels.tolist())):
            yield [paths, (dts.TAG_TABLE, SampleTable(sizes, None).to_bytes())]
        yield [paths]
    yield [whole]
    yield []


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
