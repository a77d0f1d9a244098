"""The DTS records: bytes as the spec's tables say, values back, and a FormatError that names the place otherwise."""

from __future__ import annotations

import dataclasses
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload.errors import FormatError
from trainload.formats.sections import sections_from_bytes, sections_to_bytes
from trainload.images.classes.packed_names import Names
from trainload.images.format import dts
from trainload.images.format.block import BlockHeader

MB16 = 16 << 20
PICTURES = dts.DtsHeader(
    dataset_type="IMAGENET",
    is_training=True,
    compress_level=3,
    val_set_prep=0,
    num_classes=1000,
    image_width=0,
    image_height=0,
    num_channels=3,
    color_type="RGB",
    num_samples=700,
    num_volumes=2,
    volume_id=1,
    total_blocks=7,
    num_blocks=4,
    total_bytes=5 * MB16,
    header_bytes=MB16,
    block_bytes=4 * MB16,
    block_size=MB16,
    block_header_size=16384,
    pic_alignment=64,
    max_pic_area=240_000,
    max_pic_per_block=300,
    compression_ratio=0.5,
    crc_code=0x12345678,
)
MNIST = dts.DtsHeader(
    dataset_type="MNIST",
    is_training=False,
    compress_level=0,
    val_set_prep=0,
    num_classes=10,
    image_width=28,
    image_height=28,
    num_channels=1,
    color_type="GRAY",
    num_samples=100,
    num_volumes=1,
    volume_id=0,
    total_blocks=1,
    num_blocks=1,
    total_bytes=256 + 78_500,
    header_bytes=256,
    block_bytes=78_500,
    block_size=78_500,
    block_header_size=0,
    pic_alignment=0,
    max_pic_area=784,
    max_pic_per_block=100,
    compression_ratio=1.0,
    crc_code=1,
)

# The table of docs/spec/dts.md, section 1: offset, struct code, value in PICTURES.
TABLE = [
    (0, "4s", b".DTS"),
    (4, "4B", (3, 0, 0, 0)),
    (8, "8s", b"IMAGENET"),
    (16, "I", 1),
    (20, "I", 3),
    (24, "I", 0),
    (28, "I", 1000),
    (32, "4s", b"NHWC"),
    (36, "I", 0),
    (40, "I", 0),
    (44, "I", 3),
    (48, "4s", b" RGB"),
    (52, "I", 700),
    (56, "I", 2),
    (60, "I", 1),
    (64, "I", 7),
    (68, "I", 4),
    (72, "Q", 5 * MB16),
    (80, "I", MB16),
    (84, "Q", 4 * MB16),
    (92, "I", MB16),
    (96, "I", 16384),
    (100, "I", 64),
    (104, "I", 240_000),
    (108, "I", 300),
    (112, "f", 0.5),
    (116, "3f", (0.0, 0.0, 0.0)),
    (128, "3f", (0.0, 0.0, 0.0)),
    (140, "I", 0x12345678),
]


def test_header_fields_stand_at_the_offsets_of_the_spec() -> None:
    data = PICTURES.to_bytes()
    assert len(data) == 144
    end = 0
    for offset, code, value in TABLE:
        found = struct.unpack_from("<" + code, data, offset)
        assert offset == end and (found if isinstance(value, tuple) else found[0]) == value
        end = offset + struct.calcsize("<" + code)
    assert end == 144


@pytest.mark.parametrize("header", [PICTURES, MNIST], ids=["pictures", "mnist"])
def test_a_header_comes_back_as_it_was(header: dts.DtsHeader) -> None:
    assert dts.DtsHeader.from_bytes(header.to_bytes(), file_size=header.total_bytes) == header


def test_mnist_is_filled_up_on_the_left() -> None:
    assert MNIST.to_bytes()[8:16] == b"   MNIST" and MNIST.to_bytes()[48:52] == b"GRAY"


def test_a_genuine_mnist_header_with_three_channels_in_its_sizes_is_accepted() -> None:
    lying = dataclasses.replace(MNIST, total_bytes=256 + 235_300, block_bytes=235_300, block_size=235_300)
    header = dts.DtsHeader.from_bytes(lying.to_bytes(), file_size=MNIST.total_bytes)
    assert header.pixel_bytes == 78_400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dataset_type", "IMAGENOT"),
        ("compress_level", 4),
        ("num_classes", 1 << 25),
        ("tensor_layout", "NCHW"),
        ("num_channels", 4),
        ("color_type", "BGR"),
        ("num_samples", 4 * 1364 + 1),
        ("num_volumes", 1),
        ("volume_id", 2),
        ("total_blocks", 3),
        ("num_blocks", 5),
        ("total_bytes", 5 * MB16 + 1),
        ("header_bytes", 256),
        ("block_bytes", 4),
        ("block_size", 1 << 20),
        ("block_header_size", 4095),
        ("block_header_size", 0),
        ("block_header_size", MB16),
        ("pic_alignment", 1),
    ],
)
def test_a_header_that_lies_is_refused_with_its_field_and_offset(field: str, value: object) -> None:
    lying = dataclasses.replace(PICTURES, **{field: value})  # type: ignore[arg-type]
    with pytest.raises(FormatError) as caught:
        dts.DtsHeader.from_bytes(lying.to_bytes(), file_size=PICTURES.total_bytes, path="x.dts")
    error = caught.value
    assert error.rule and error.found and error.expected and error.path == "x.dts"
    assert error.field in dts.FIELD_OFFSET and error.offset == dts.FIELD_OFFSET[error.field]


def test_a_file_of_another_length_is_refused() -> None:
    for header in (PICTURES, MNIST):
        for size in (0, header.total_bytes - 1, header.total_bytes + 1):
            with pytest.raises(FormatError):
                dts.DtsHeader.from_bytes(header.to_bytes(), file_size=size)


@pytest.mark.parametrize("header", [PICTURES, MNIST], ids=["pictures", "mnist"])
@settings(max_examples=400, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 143), st.integers(0, 255)), max_size=4), length=st.integers(0, 200))
def test_any_bytes_give_a_header_or_a_format_error(
    header: dts.DtsHeader, changes: list[tuple[int, int]], length: int
) -> None:
    data = bytearray(header.to_bytes())
    for at, value in changes:
        data[at] = value
    try:
        parsed = dts.DtsHeader.from_bytes(bytes(data[:length]) if length < 144 else bytes(data), file_size=5 * MB16)
    except FormatError:
        return
    assert parsed.num_samples <= parsed.num_blocks * dts.block_capacity(parsed.block_header_size)


def a_block(level: int = 3, block_id: int = 2) -> BlockHeader:
    offsets = np.array([16384, 16448, 20480], np.uint32)
    return BlockHeader(level, block_id, offsets, np.array([5, 4000, 64], np.uint32), np.array([0, 999, 3], np.uint32))


def test_a_block_header_stands_as_the_spec_says() -> None:
    data = a_block().to_bytes(16384)
    assert len(data) == 16384 and data[:12] == b"LV3B" + struct.pack("<II", 2, 3)
    assert np.frombuffer(data, "<u4", 9, 12).tolist() == [16384, 16448, 20480, 5, 4000, 64, 0, 999, 3]
    assert not any(data[48:])


def test_a_block_header_comes_back_as_views_of_its_bytes() -> None:
    data = a_block().to_bytes(16384)
    block = BlockHeader.from_bytes(data, PICTURES, 2, offset=3 * MB16, path="x.dts")
    assert (block.level, block.block_id) == (3, 2)
    assert np.array_equal(block.sizes, a_block().sizes) and block.sizes.base is not None


def test_a_block_header_has_room_for_340_and_1364_pictures() -> None:
    assert (dts.block_capacity(4096), dts.block_capacity(16384)) == (340, 1364)


@pytest.mark.parametrize(
    ("at", "value", "field", "offset"),
    [
        (0, int.from_bytes(b"LV2B", "little"), "block magic", 0),
        (4, 3, "block_id", 4),
        (8, 1365, "num_pics", 8),
        (12, 16383, "offsets[0]", 12),
        (16, 16385, "offsets[1]", 16),
        (20, 16500, "offsets[2]", 20),
        (32, MB16, "sizes[2]", 32),
        (24, 65, "offsets[1]", 16),
        (40, 1000, "labels[1]", 40),
        (20, 0xFFFFFFFF, "sizes[2]", 32),
    ],
)
def test_a_block_header_that_lies_is_refused_at_its_place(at: int, value: int, field: str, offset: int) -> None:
    data = bytearray(a_block().to_bytes(16384))
    struct.pack_into("<I", data, at, value)
    with pytest.raises(FormatError) as caught:
        BlockHeader.from_bytes(bytes(data), PICTURES, 2, offset=3 * MB16, path="x.dts")
    assert (caught.value.field, caught.value.offset) == (field, 3 * MB16 + offset)


@settings(max_examples=400, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=5))
def test_any_bytes_give_a_block_whose_pictures_lie_inside_it_or_a_format_error(changes: list[tuple[int, int]]) -> None:
    data = bytearray(a_block().to_bytes(16384))
    for at, value in changes:
        data[at] = value
    try:
        block = BlockHeader.from_bytes(bytes(data), PICTURES, 2, offset=0, path="")
    except FormatError:
        return
    ends = block.offsets.astype(np.int64) + block.sizes
    assert (block.offsets >= 16384).all() and (ends <= MB16).all() and (block.labels < 1000).all()


def test_a_genuine_header_region_is_the_header_and_zeros() -> None:
    region = dts.header_region_to_bytes(PICTURES, [])
    assert region[:144] == PICTURES.to_bytes() and not any(region[144:])


def test_the_extension_is_a_section_list_closed_by_the_crc_of_all_before_it() -> None:
    region = dts.header_region_to_bytes(PICTURES, [(b"ABCD", b"one"), (b"EFGH", b"")])
    size = dts.extension_size_from_bytes(region[256:272])
    assert region[256:260] == b"DTSX" and 272 + size == len(region)
    sections = dict(sections_from_bytes(region[272:], path="", offset=272))
    assert list(sections) == [b"ABCD", b"EFGH", b"HCRC"] and sections[b"ABCD"] == b"one"
    assert struct.unpack("<I", sections[b"HCRC"])[0] == zlib.crc32(region[:-20])


def test_an_extension_larger_than_the_header_region_is_no_file() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        dts.header_region_to_bytes(PICTURES, [(b"ABCD", bytes(MB16 - 272 - 16 - 20 + 1))])
    assert len(dts.header_region_to_bytes(PICTURES, [(b"ABCD", bytes(MB16 - 272 - 16 - 20))])) == MB16


def test_an_extension_that_claims_more_than_the_region_is_refused() -> None:
    with pytest.raises(FormatError):
        dts.extension_size_from_bytes(struct.pack("<4sHHQ", b"DTSX", 1, 0, MB16))
    assert dts.extension_size_from_bytes(bytes(16)) == 0
    assert dts.extension_size_from_bytes(struct.pack("<4sHHQ", b"DTSX", 2, 0, 5)) == 0


@settings(max_examples=200, deadline=None)
@given(
    sections=st.lists(st.tuples(st.binary(min_size=4, max_size=4), st.binary(max_size=40)), max_size=4),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3),
)
def test_any_section_list_comes_back_or_is_a_format_error(
    sections: list[tuple[bytes, bytes]], changes: list[tuple[int, int]]
) -> None:
    data = bytearray(sections_to_bytes(sections))
    assert sections_from_bytes(bytes(data), path="", offset=0) == sections
    for at, value in changes:
        if at < len(data):
            data[at] = value
    try:
        found = sections_from_bytes(bytes(data), path="", offset=0)
    except FormatError:
        return
    assert sum(16 + len(body) for _, body in found) == len(data)


@given(names=st.lists(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20)))
def test_names_come_back(names: list[str]) -> None:
    assert list(Names(dts.names_to_bytes(names))) == names  # type: ignore[call-overload]
