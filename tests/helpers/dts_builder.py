"""Builds small DTS files record by record, without the packer: also the hostile ones that no packer writes."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from isal import isal_zlib

from loading_data import claimed_area
from trainload.codecs.compression import zstd_compress
from trainload.images.format import dts
from trainload.images.format.block import BlockHeader

Picture = tuple[bytes, int, str]  # encoded bytes, label, source path


@dataclass
class DtsBuilder:
    """One volume: blocks of (bytes, label, path) pictures. `header` and `sections` overrides make it lie."""

    blocks: Sequence[Sequence[Picture]]
    class_names: Sequence[str] = ("ant", "bee", "cat")
    level: int = 0
    extension: bool = True
    header: Mapping[str, object] = field(default_factory=dict)
    sections: Mapping[bytes, bytes | None] = field(default_factory=dict)
    edit_blocks: Callable[[int, bytearray], None] | None = None

    def block_bytes(self, k: int) -> bytes:
        """The 16 MB of block `k`."""
        header_size = dts.BLOCK_HEADER_SIZE[self.level]
        offset, offsets, payload = header_size, [], b""
        for data, _, _ in self.blocks[k]:
            offsets.append(offset)
            payload += data.ljust(dts.align(len(data)), b"\0")
            offset = header_size + len(payload)
        columns = [
            np.array(c, np.uint32)
            for c in (offsets, [len(p[0]) for p in self.blocks[k]], [p[1] for p in self.blocks[k]])
        ]
        head = BlockHeader(self.level, k, *columns).to_bytes(header_size)
        block = bytearray((head + payload).ljust(dts.BLOCK_SIZE, b"\0"))
        if self.edit_blocks is not None:
            self.edit_blocks(k, block)
        return bytes(block)

    def to_header(self, crc: int) -> dts.DtsHeader:
        """The header of the file, with the overrides in it."""
        pictures = [p for block in self.blocks for p in block]
        count = len(self.blocks)
        total = dts.IMAGE_HEADER_BYTES + count * dts.BLOCK_SIZE
        header = dts.DtsHeader(
            dataset_type=dts.IMAGENET,
            is_training=True,
            compress_level=self.level,
            val_set_prep=0,
            num_classes=len(self.class_names),
            image_width=0,
            image_height=0,
            num_channels=3,
            color_type="RGB",
            num_samples=len(pictures),
            num_volumes=1,
            volume_id=0,
            total_blocks=count,
            num_blocks=count,
            total_bytes=total,
            header_bytes=dts.IMAGE_HEADER_BYTES,
            block_bytes=count * dts.BLOCK_SIZE,
            block_size=dts.BLOCK_SIZE,
            block_header_size=dts.BLOCK_HEADER_SIZE[self.level],
            pic_alignment=64,
            max_pic_area=claimed_area(data for data, _, _ in pictures),
            max_pic_per_block=max((len(b) for b in self.blocks), default=0),
            compression_ratio=total / max(1, sum(len(p[0]) for p in pictures)),
            crc_code=crc,
        )
        return dataclasses.replace(header, **self.header)  # type: ignore[arg-type]

    def write(self, path: Path) -> Path:
        """Write the file, sparse where it is zero, and give its path back."""
        blocks = [self.block_bytes(k) for k in range(len(self.blocks))]
        crc, crcs = 0, []
        for block in blocks:
            crc = isal_zlib.crc32(block, crc)
            crcs.append(isal_zlib.crc32(block))
        region = dts.header_region_to_bytes(self.to_header(crc), self._sections(crcs))
        with path.open("wb") as file:
            file.write(region)
            for k, block in enumerate(blocks):
                file.seek(dts.IMAGE_HEADER_BYTES + k * dts.BLOCK_SIZE)
                file.write(block.rstrip(b"\0"))
            file.truncate(dts.IMAGE_HEADER_BYTES + len(blocks) * dts.BLOCK_SIZE)
        return path

    def _sections(self, crcs: list[int]) -> list[tuple[bytes, bytes]]:
        if not self.extension:
            return []
        table = [struct.pack("<II", len(block), crc) for block, crc in zip(self.blocks, crcs)]
        paths = [path for block in self.blocks for _, _, path in block]
        sections: Mapping[bytes, bytes | None] = {
            dts.TAG_UUID: bytes(range(16)),
            dts.TAG_CLASSES: zstd_compress(dts.names_to_bytes(list(self.class_names))),
            dts.TAG_PATHS: zstd_compress(dts.names_to_bytes(paths)),
            dts.TAG_BLOCKS: b"".join(table),
            dts.TAG_PICTURES: b"".join(
                struct.pack("<I", isal_zlib.crc32(p[0])) for block in self.blocks for p in block
            ),
            dts.TAG_PARAMETERS: json.dumps({"level": self.level, "version": "0"}).encode(),
        }
        return [(tag, body) for tag, body in {**sections, **self.sections}.items() if body is not None]


def pictures(
    count: int, *, first: int = 0, size: int = 700, classes: Sequence[str] = ("ant", "bee", "cat")
) -> list[Picture]:
    """`count` made-up pictures whose bytes tell which one they are; sizes vary around `size`."""
    made = []
    for n in range(first, first + count):
        label = n % len(classes)
        data = (b"\xff\xd8picture %06d " % n) * (1 + (size + n % 97) // 18)
        made.append((data, label, f"{classes[label]}/{n:06d}.JPEG"))
    return made
