"""DTS v3, bytes <-> values: the file header, and the extension in the unused header region (blocks: block.py).

The law is docs/spec/dts.md. This file knows no storage: it gets bytes and the size of the file they came from.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields

from isal import isal_zlib

from trainload.formats import limits
from trainload.formats.fields import Checker
from trainload.formats.sections import HEAD_BYTES as SECTION_HEAD_BYTES
from trainload.formats.sections import sections_to_bytes
from trainload.images.format import rules

MAGIC = b".DTS"
VERSION = (3, 0, 0, 0)
HEADER_BYTES_USED = 144
BLOCK_SIZE = 16 << 20
IMAGE_HEADER_BYTES = 16 << 20
ARRAY_HEADER_BYTES = 256
PICTURE_ALIGNMENT = 64
BLOCK_HEADER_STEP = 4096
BLOCK_HEADER_SIZE = {0: 4096, 1: 16384, 2: 16384, 3: 16384}
BLOCK_FIXED_BYTES = 12  # magic, block_id, num_pics
BLOCK_ENTRY_BYTES = 12  # offset, size, label
GENUINE_MAX_PICS = 1000  # the genuine loader refuses a block of more

IMAGENET, CIFAR10, CIFAR100, MNIST = "IMAGENET", "CIFAR10", "CIFAR100", "MNIST"
DATASET_TYPES = (IMAGENET, CIFAR10, CIFAR100, MNIST)


def align(size: int, to: int = PICTURE_ALIGNMENT) -> int:
    """`size` rounded up to a multiple of `to`."""
    return -(-size // to) * to


def block_capacity(block_header_size: int) -> int:
    """How many pictures' entries a block header of that many bytes holds (340 for 4,096; 1,364 for 16,384)."""
    return (block_header_size - BLOCK_FIXED_BYTES) // BLOCK_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class DtsHeader:
    """The first 144 bytes of a DTS file (docs/spec/dts.md, section 1), fields in file order.

    | offset | type | field | | offset | type | field |
    |---|---|---|---|---|---|---|
    | 0 | 4s | magic | | 64 | u32 | total_blocks |
    | 4 | u8[4] | version | | 68 | u32 | num_blocks |
    | 8 | 8s | dataset_type | | 72 | u64 | total_bytes |
    | 16 | u32 | is_training | | 80 | u32 | header_bytes |
    | 20 | u32 | compress_level | | 84 | u64 | block_bytes |
    | 24 | u32 | val_set_prep | | 92 | u32 | block_size |
    | 28 | u32 | num_classes | | 96 | u32 | block_header_size |
    | 32 | 4s | tensor_layout | | 100 | u32 | pic_alignment |
    | 36 | u32 | image_width | | 104 | u32 | max_pic_area |
    | 40 | u32 | image_height | | 108 | u32 | max_pic_per_block |
    | 44 | u32 | num_channels | | 112 | f32 | compression_ratio |
    | 48 | 4s | color_type | | 116 | f32[3] | normalize_mean |
    | 52 | u32 | num_samples | | 128 | f32[3] | normalize_std |
    | 56 | u32 | num_volumes | | 140 | u32 | crc_code |
    | 60 | u32 | volume_id | | | | |
    """

    dataset_type: str
    is_training: bool
    compress_level: int
    val_set_prep: int
    num_classes: int
    image_width: int
    image_height: int
    num_channels: int
    color_type: str
    num_samples: int
    num_volumes: int
    volume_id: int
    total_blocks: int
    num_blocks: int
    total_bytes: int
    header_bytes: int
    block_bytes: int
    block_size: int
    block_header_size: int
    pic_alignment: int
    max_pic_area: int
    max_pic_per_block: int
    compression_ratio: float
    crc_code: int
    normalize_mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normalize_std: tuple[float, float, float] = (0.0, 0.0, 0.0)
    tensor_layout: str = "NHWC"

    @property
    def holds_pictures(self) -> bool:
        """True for blocks of JPEGs (IMAGENET), False for one array of pixels (MNIST, CIFAR)."""
        return self.dataset_type == IMAGENET

    @property
    def pixel_bytes(self) -> int:
        """Pixel bytes of an MNIST or CIFAR file, from its dimensions (a genuine MNIST header says three times that)."""
        return self.num_samples * self.image_width * self.image_height * self.num_channels

    def to_bytes(self) -> bytes:
        """The 144 bytes."""
        return _HEADER.pack(
            MAGIC,
            bytes(VERSION),
            self.dataset_type.rjust(8).encode("ascii"),
            self.is_training,
            self.compress_level,
            self.val_set_prep,
            self.num_classes,
            self.tensor_layout.encode("ascii"),
            self.image_width,
            self.image_height,
            self.num_channels,
            self.color_type.rjust(4).encode("ascii"),
            self.num_samples,
            self.num_volumes,
            self.volume_id,
            self.total_blocks,
            self.num_blocks,
            self.total_bytes,
            self.header_bytes,
            self.block_bytes,
            self.block_size,
            self.block_header_size,
            self.pic_alignment,
            self.max_pic_area,
            self.max_pic_per_block,
            self.compression_ratio,
            *self.normalize_mean,
            *self.normalize_std,
            self.crc_code,
        )

    @staticmethod
    def from_bytes(data: bytes, *, file_size: int, path: str = "") -> DtsHeader:
        """Parse and check the first 144 bytes of a file that is `file_size` bytes long.

        Raises FormatError where a field breaks docs/spec/dts.md or does not agree with the file's size. What needs the
        block headers (labels, offsets) is checked by `BlockHeader.from_bytes`, what needs the data by verify.
        """
        check = _HeaderChecker(path)
        check.require(
            len(data) >= HEADER_BYTES_USED,
            rules.HEADER_WHOLE,
            field="header",
            offset=0,
            found=f"{len(data)} bytes",
            expected=f"{HEADER_BYTES_USED} bytes",
        )
        (
            magic,
            version,
            dataset_type,
            is_training,
            level,
            val_prep,
            num_classes,
            layout,
            width,
            height,
            channels,
            color,
            num_samples,
            num_volumes,
            volume_id,
            total_blocks,
            num_blocks,
            total_bytes,
            header_bytes,
            block_bytes,
            block_size,
            block_header_size,
            alignment,
            max_area,
            max_pics,
            ratio,
            *mean_std,
            crc,
        ) = _HEADER.unpack_from(data)
        check.field("magic", magic, MAGIC)
        check.field("version", tuple(version), VERSION)
        header = DtsHeader(
            dataset_type=dataset_type.decode("latin-1").lstrip(" "),
            is_training=bool(is_training),
            compress_level=level,
            val_set_prep=val_prep,
            num_classes=num_classes,
            image_width=width,
            image_height=height,
            num_channels=channels,
            color_type=color.decode("latin-1").lstrip(" "),
            num_samples=num_samples,
            num_volumes=num_volumes,
            volume_id=volume_id,
            total_blocks=total_blocks,
            num_blocks=num_blocks,
            total_bytes=total_bytes,
            header_bytes=header_bytes,
            block_bytes=block_bytes,
            block_size=block_size,
            block_header_size=block_header_size,
            pic_alignment=alignment,
            max_pic_area=max_area,
            max_pic_per_block=max_pics,
            compression_ratio=ratio,
            normalize_mean=tuple(mean_std[:3]),
            normalize_std=tuple(mean_std[3:]),
            crc_code=crc,
            tensor_layout=layout.decode("latin-1"),
        )
        check.one_of("dataset_type", header.dataset_type, DATASET_TYPES)
        check.one_of("is_training", is_training, (0, 1))
        check.field("tensor_layout", header.tensor_layout, "NHWC")
        check.at_most("num_classes", num_classes, limits.MAX_CLASSES)
        check.at_most("num_samples", num_samples, limits.MAX_SAMPLES)
        check.at_most("num_volumes", num_volumes, limits.MAX_VOLUMES)
        check.at_most("total_blocks", total_blocks, limits.MAX_BLOCKS)
        check.that(volume_id < num_volumes, "volume_id", volume_id, f"below num_volumes = {num_volumes}")
        check.that(num_blocks <= total_blocks, "num_blocks", num_blocks, f"at most total_blocks = {total_blocks}")
        if header.holds_pictures:
            _check_pictures(header, check, file_size)
        else:
            _check_array(header, check, file_size)
        return header


def _check_pictures(header: DtsHeader, check: _HeaderChecker, file_size: int) -> None:
    check.one_of("compress_level", header.compress_level, (0, 1, 2, 3))
    check.field("block_size", header.block_size, BLOCK_SIZE)
    check.field("header_bytes", header.header_bytes, IMAGE_HEADER_BYTES)
    check.field("pic_alignment", header.pic_alignment, PICTURE_ALIGNMENT)
    check.field("image_width", header.image_width, 0)
    check.field("image_height", header.image_height, 0)
    check.field("num_channels", header.num_channels, 3)
    check.field("color_type", header.color_type, "RGB")
    size = header.block_header_size
    good = 0 < size < BLOCK_SIZE and size % BLOCK_HEADER_STEP == 0
    check.that(good, "block_header_size", size, f"a multiple of {BLOCK_HEADER_STEP} below {BLOCK_SIZE}")
    check.field("block_bytes", header.block_bytes, header.num_blocks * header.block_size)
    check.field("total_bytes", header.total_bytes, header.header_bytes + header.block_bytes)
    most = header.num_blocks * block_capacity(size)
    check.that(header.num_samples <= most, "num_samples", header.num_samples, f"at most {most:,} in the blocks")
    check.that(file_size == header.total_bytes, "total_bytes", header.total_bytes, f"the file's size {file_size:,}")


def _check_array(header: DtsHeader, check: _HeaderChecker, file_size: int) -> None:
    shape = (28, 28, 1, "GRAY") if header.dataset_type == MNIST else (32, 32, 3, "RGB")
    found = (header.image_width, header.image_height, header.num_channels, header.color_type)
    check.that(found == shape, "image_width", found, shape)
    check.field("header_bytes", header.header_bytes, ARRAY_HEADER_BYTES)
    check.field("num_blocks", header.num_blocks, 1)
    size = header.header_bytes + header.num_samples + header.pixel_bytes
    check.that(file_size == size, "num_samples", header.num_samples, f"what a file of {file_size:,} bytes holds")


class _HeaderChecker(Checker):
    """Checks header fields by name; the offset comes from the struct."""

    def that(self, good: bool, field: str, found: object, expected: object) -> None:
        self.require(
            good,
            rules.HEADER_FIELD,
            field=field,
            offset=FIELD_OFFSET[field],
            found=found,
            expected=expected,
        )

    def field(self, field: str, found: object, expected: object) -> None:
        self.that(found == expected, field, found, expected)

    def one_of(self, field: str, found: object, choices: tuple[object, ...]) -> None:
        self.that(found in choices, field, repr(found), "one of " + ", ".join(map(repr, choices)))

    def at_most(self, field: str, found: int, most: int) -> None:
        self.that(found <= most, field, f"{found:,}", f"at most {most:,}")


LAYOUT = (
    ("magic", "4s"),
    ("version", "4s"),
    ("dataset_type", "8s"),
    ("is_training", "I"),
    ("compress_level", "I"),
    ("val_set_prep", "I"),
    ("num_classes", "I"),
    ("tensor_layout", "4s"),
    ("image_width", "I"),
    ("image_height", "I"),
    ("num_channels", "I"),
    ("color_type", "4s"),
    ("num_samples", "I"),
    ("num_volumes", "I"),
    ("volume_id", "I"),
    ("total_blocks", "I"),
    ("num_blocks", "I"),
    ("total_bytes", "Q"),
    ("header_bytes", "I"),
    ("block_bytes", "Q"),
    ("block_size", "I"),
    ("block_header_size", "I"),
    ("pic_alignment", "I"),
    ("max_pic_area", "I"),
    ("max_pic_per_block", "I"),
    ("compression_ratio", "f"),
    ("normalize_mean", "3f"),
    ("normalize_std", "3f"),
    ("crc_code", "I"),
)
_HEADER = struct.Struct("<" + "".join(code for _, code in LAYOUT))
FIELD_OFFSET = {
    name: struct.calcsize("<" + "".join(code for _, code in LAYOUT[:n])) for n, (name, _) in enumerate(LAYOUT)
}
FIELD_NAMES = tuple(FIELD_OFFSET)  # in file order
assert _HEADER.size == HEADER_BYTES_USED
assert {f.name for f in fields(DtsHeader)} == set(FIELD_OFFSET) - {"magic", "version"}


EXTENSION_OFFSET = 256
EXTENSION_MAGIC = b"DTSX"
EXTENSION_VERSION = 1
_EXTENSION = struct.Struct("<4sHHQ")  # magic, version, zero, sections_size
_CRC = struct.Struct("<I")
EXTENSION_HEAD_BYTES = _EXTENSION.size  # 16

TAG_UUID = b"UUID"  # 16 bytes
TAG_CLASSES = b"CLSS"  # class names in label order: `names_to_bytes`, then Zstandard
TAG_PATHS = b"PATH"  # source paths in sample order, relative to the packed folder: `names_to_bytes`, then Zstandard
TAG_BLOCKS = b"BLKS"  # per block: num_pics u32, CRC-32 of its 16 MB u32
TAG_PICTURES = b"PCRC"  # per picture, in sample order: CRC-32 of its bytes without padding, u32
TAG_TABLE = b"TABL"  # every sample's size, and its label: format/sample_table.py
TAG_PARAMETERS = b"PARM"  # JSON: how the file was packed, by which version
TAG_HEADER_CRC = b"HCRC"  # the last section: CRC-32 of every byte of the file before this section's head


def header_region_to_bytes(header: DtsHeader, sections: list[tuple[bytes, bytes]]) -> bytes:
    """Byte 0 to the end of the extension, closed by HCRC; what follows up to header_bytes is zero.

    Without sections only the header: a genuine file. Raises ValueError where it does not fit into the header region.
    """
    start = header.to_bytes().ljust(EXTENSION_OFFSET, b"\0")
    if not sections:
        return start
    body = sections_to_bytes(sections)
    size = len(body) + SECTION_HEAD_BYTES + _CRC.size
    covered = start + _EXTENSION.pack(EXTENSION_MAGIC, EXTENSION_VERSION, 0, size) + body
    region = covered + sections_to_bytes([(TAG_HEADER_CRC, _CRC.pack(isal_zlib.crc32(covered)))])
    if len(region) > IMAGE_HEADER_BYTES:
        raise ValueError(f"an extension of {size:,} bytes does not fit into the header region")
    return region


def names_to_bytes(names: list[str]) -> bytes:
    """UTF-8 names, each ended by NUL. A name of bytes that are no UTF-8 (Python's surrogate escapes) keeps them."""
    return "".join(name + "\0" for name in names).encode("utf-8", "surrogateescape")


def extension_size_from_bytes(head: bytes, *, path: str = "") -> int:
    """Bytes of the section list, from the 16 bytes at 256; 0 where the file carries no extension (a genuine file)."""
    magic, version, _, size = _EXTENSION.unpack(head)
    if magic != EXTENSION_MAGIC or version != EXTENSION_VERSION:
        return 0
    most = IMAGE_HEADER_BYTES - EXTENSION_OFFSET - EXTENSION_HEAD_BYTES
    Checker(path, EXTENSION_OFFSET).limit(size, most, field="sections_size", offset=8)
    return int(size)
