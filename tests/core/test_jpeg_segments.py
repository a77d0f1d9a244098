"""The core's walk over the segments of a JPEG finds what a slow walk in Python finds, in any bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from jpeg_writer import make_jpeg
from trainload import _core
from trainload.images.packing.jpeg_facts import jpeg_facts

Segment = tuple[int, int, int]
SOI, SOS = 0xD8, 0xDA
WITHOUT_LENGTH = {0x00, 0x01, *range(0xD0, 0xD8)}


def slow_walk(data: bytes, most_stray: int) -> Iterator[Segment]:
    """As core/jpeg_segments.h has it, byte by byte."""
    at, stray = 2, 0
    if data[:2] != b"\xff\xd8":
        return
    while at + 4 <= len(data):
        marker = data[at + 1]
        if most_stray and stray >= most_stray:
            return
        if not most_stray and data[at] != 0xFF:
            return
        if marker == 0xFF or data[at] != 0xFF or (most_stray and marker in WITHOUT_LENGTH):
            at += 1
            stray += 1
        elif most_stray and marker == SOI:
            yield marker, at, at + 2
            at += 2
            stray += 2
        else:
            end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
            yield marker, at, end
            if marker == SOS:
                return
            at = end


# Pieces of which headers are made, whole and broken.
PIECES = st.one_of(
    st.binary(max_size=5),
    st.sampled_from([b"\xff", b"\xff\xff", b"\xff\x00", b"\xff\xd8", b"\xff\xd9", b"\xff\x01", b"\xff\xd3", b"\0" * 9]),
    st.tuples(st.integers(0xC0, 0xFE), st.integers(0, 12), st.binary(max_size=10)).map(
        lambda part: bytes([0xFF, part[0], 0, part[1]]) + part[2]
    ),
    st.just(b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"),
)


@settings(max_examples=1500, deadline=None)
@given(pieces=st.lists(PIECES, max_size=12), starts=st.booleans(), most_stray=st.sampled_from([0, 1, 2, 3, 7, 1 << 16]))
def test_any_bytes_have_the_segments_that_a_slow_walk_finds(pieces: list[bytes], starts: bool, most_stray: int) -> None:
    data = b"\xff\xd8" * starts + b"".join(pieces)
    expected = list(slow_walk(data, most_stray))
    assert list(_core.JpegSegments(data, most_stray)) == expected
    assert list(_core.JpegSegments(memoryview(data), most_stray)) == expected


@pytest.mark.parametrize("most_stray", [0, 1 << 16])
def test_the_segments_of_a_sound_picture_lie_one_after_the_other_up_to_the_scan(most_stray: int) -> None:
    data = make_jpeg(40, 30, "4:2:0", restart_interval=3)
    segments = list(_core.JpegSegments(data, most_stray))
    assert [marker for marker, _, _ in segments] == [0xDB, 0xC0, 0xC4, 0xDD, SOS]
    assert [start for _, start, _ in segments] == [2, *(end for _, _, end in segments[:-1])]


def test_a_walk_keeps_its_bytes_and_ends_for_good() -> None:
    walk = _core.JpegSegments(bytes(bytearray(make_jpeg(16, 16, "gray"))))
    assert iter(walk) is walk
    assert len(list(walk)) == 4
    assert list(walk) == []


def test_a_second_start_of_image_is_no_jpeg_for_the_packer_and_for_pillow() -> None:
    data = make_jpeg(16, 16, "4:4:4")
    assert jpeg_facts(data) is not None
    doubled = data[:2] + data
    assert jpeg_facts(doubled) is None
    with pytest.raises(OSError):
        Image.open(io.BytesIO(doubled)).load()
