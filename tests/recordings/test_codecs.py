"""Payload codecs: LZ4, Zstandard, byte shuffle, and the table that names them."""

from __future__ import annotations

import random
import struct
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from present import present
from trainload import UsageError, _core
from trainload.codecs.codec import Codec
from trainload.codecs.compression import zstd_compress
from trainload.codecs.shuffle import shuffle, unshuffle
from trainload.codecs.table import CODECS, codec_by_id, codec_by_name
from trainload.recordings.format.hyperframe import CODEC_MASK, CODEC_SHIFT, FRAME_ENCRYPTED, SHUFFLED
from trainload.recordings.format.payload import decode_payload, encode_payload

FLOATS = np.cumsum(np.random.default_rng(0).normal(0, 0.01, 5000)).astype("<f4").round(2).tobytes()
NAMES = [codec.name for codec in CODECS]


def roundtrip(data: bytes, name: str, element_size: int) -> tuple[bytes, int]:
    found = codec_by_name(name)
    assert found is not None
    stored, flags = encode_payload(data, *found, element_size)
    assert bytes(decode_payload(stored, flags, element_size)) == data
    return stored, flags


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=500), st.sampled_from(NAMES), st.integers(0, 9), st.integers(1, 40))
def test_every_codec_gives_back_what_it_took(data: bytes, name: str, element_size: int, times: int) -> None:
    stored, flags = roundtrip(data * times, name, element_size)
    assert len(stored) <= len(data * times)
    assert flags == 0 or (flags & CODEC_MASK) >> CODEC_SHIFT in (1, 2)


@pytest.mark.parametrize("name", NAMES)
def test_every_codec_shrinks_floats_and_says_so_in_the_flags(name: str) -> None:
    for element_size in (0, 4):
        stored, flags = roundtrip(FLOATS, name, element_size)
        assert len(stored) < 0.9 * len(FLOATS)
        assert bool(flags & SHUFFLED) == bool(element_size)


@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_shrink_is_stored_as_it_is(name: str) -> None:
    data = random.Random(0).randbytes(5000)
    assert roundtrip(data, name, 4) == (data, 0)
    assert roundtrip(b"", name, 4) == (b"", 0)


@pytest.mark.parametrize("name", NAMES)
def test_what_shrinks_by_less_than_a_sixteenth_is_stored_as_it_is(name: str) -> None:
    noise = random.Random(0).randbytes(16_000)
    assert roundtrip(noise + bytes(500), name, 0) == (noise + bytes(500), 0)
    assert roundtrip(noise + bytes(1500), name, 0)[1]


@given(st.binary(max_size=300), st.integers(1, 20))
def test_the_shuffle_orders_bytes_by_their_place_in_the_element(data: bytes, size: int) -> None:
    whole = len(data) // size
    expected = bytes(data[n * size + place] for place in range(size) for n in range(whole)) + data[whole * size :]
    assert shuffle(data, size) == expected
    assert unshuffle(expected, size) == data


@given(st.integers(0, 1100), st.integers(1, 70), st.integers(0, 69))
def test_the_shuffle_is_a_transpose_whatever_the_element(count: int, size: int, rest: int) -> None:
    data = np.random.default_rng(count).integers(0, 256, count * size + rest % size, dtype=np.uint8)
    planes = data[: count * size].reshape(count, size).T.tobytes() + data[count * size :].tobytes()
    assert shuffle(data.tobytes(), size) == planes
    assert unshuffle(planes, size) == data.tobytes()


def test_the_core_shuffles_between_memories_of_one_size_only() -> None:
    for move in (_core.shuffle, _core.unshuffle):
        for sizes in ((8, 7, 4), (8, 8, 0), (0, 1, 4)):
            with pytest.raises(ValueError, match="one size"):
                move(bytes(sizes[0]), bytearray(sizes[1]), sizes[2])
        with pytest.raises(TypeError):
            move(bytes(8), bytes(8), 4)  # not writable


def test_hc_and_fast_lz4_are_one_codec_to_a_reader() -> None:
    (fast, _), (high, level) = present(codec_by_name("lz4")), present(codec_by_name("lz4hc:12"))
    assert (fast.id, high.id, level) == (1, 1, 12)
    assert codec_by_id(1).decode(high.encode(FLOATS, 12), len(FLOATS)) == FLOATS


def test_an_unknown_name_level_or_id_is_refused() -> None:
    assert codec_by_name("none") is None
    for text in ("lzma", "", "zstd:0", "zstd:23", "zstd:x", "lz4hc:99", "zstd:²"):
        with pytest.raises(UsageError):
            codec_by_name(text)
    with pytest.raises(ValueError, match="no codec"):
        codec_by_id(5)


@pytest.mark.parametrize("codec", CODECS, ids=NAMES)
def test_damaged_bytes_are_a_value_error_and_never_more_than_the_limit(codec: Codec) -> None:
    stored, rng = codec.encode(FLOATS, codec.default_level), random.Random(1)
    for _ in range(300):
        hostile = bytearray(stored)
        for _ in range(rng.randint(1, 4)):
            hostile[rng.randrange(min(len(hostile), rng.choice((8, 1 << 20))))] = rng.randrange(256)
        try:
            assert len(codec.decode(bytes(hostile[: rng.randint(0, len(hostile))]), len(FLOATS))) <= len(FLOATS)
        except ValueError:
            continue
    with pytest.raises(ValueError):
        codec.decode(stored, len(FLOATS) - 1)


def test_a_stated_size_alone_allocates_nothing() -> None:
    zstd_head = b"\x28\xb5\x2f\xfd\xe0"  # one segment, content size in the 8 bytes that follow
    for codec_id, stored in (
        (1, struct.pack("<I", 0xFFFFFFFF) + bytes(20)),
        (2, zstd_head + struct.pack("<Q", 1 << 40) + bytes(20)),
        (2, zstd_head + struct.pack("<Q", (1 << 32) - 1) + bytes(20)),
    ):
        with pytest.raises(ValueError):
            codec_by_id(codec_id).decode(stored, 1 << 32)


def test_a_large_zstandard_frame_unpacks_by_the_bounded_way() -> None:
    data = bytes(65 << 20)
    assert codec_by_id(2).decode(zstd_compress(data), len(data)) == data


def test_encrypted_frames_and_shuffled_ones_without_a_size_are_refused() -> None:
    with pytest.raises(ValueError, match="encrypted"):
        decode_payload(b"x", FRAME_ENCRYPTED, 0)
    with pytest.raises(ValueError, match="element size"):
        decode_payload(b"x", SHUFFLED, 0)


def test_many_threads_share_the_codecs() -> None:
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(roundtrip, FLOATS * (n % 5 + 1), NAMES[n % len(NAMES)], 4) for n in range(60)]
        for job in jobs:
            job.result()
