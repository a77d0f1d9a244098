"""Philox: the known answers of Random123, the core's copy, and the numbering of the draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core_testing import core_testing
from trainload import UsageError
from trainload.running import philox

# Random123's kat_vectors, philox4x32 with 10 rounds.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
Counter = tuple[int, int, int, int]
Key = tuple[int, int]
WORD = st.integers(0, 2**32 - 1)
LONG = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers_of_random123(counter: Counter, key: Key, expected: Counter) -> None:
    assert tuple(philox.philox4x32(counter, key)) == expected
    assert tuple(core_testing.philox4x32(counter, key)) == expected


@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_numpy_equals_the_core(counter: Counter, key: Key) -> None:
    assert list(philox.philox4x32(counter, key)) == list(core_testing.philox4x32(counter, key))


@given(LONG, WORD, LONG, st.integers(0, philox.OPERATION_LIMIT - 1))
def test_draws_follow_the_documented_counters(seed: int, epoch: int, sample: int, operation: int) -> None:
    draws = philox.Draws(seed, epoch, sample, operation)
    got = [draws.bits() for _ in range(9)]
    key = (seed & 0xFFFFFFFF, seed >> 32)
    counters = [(sample & 0xFFFFFFFF, sample >> 32, epoch, operation << 16 | block) for block in range(3)]
    assert got == [word for counter in counters for word in core_testing.philox4x32(counter, key)][:9]
    assert got == list(philox.sample_bits(seed, epoch, [sample], operation, 9)[0])


def test_uniform_lies_in_its_range_and_below_under_its_count() -> None:
    draws = philox.Draws(1, 2, 3, 4)
    values = [draws.uniform(-2.0, 3.0) for _ in range(500)]
    assert -2.0 <= min(values) < -1.9 and 2.9 < max(values) < 3.0
    assert {draws.below(7) for _ in range(200)} == set(range(7))


@given(LONG, WORD, st.integers(0, 255), st.integers(0, 65))
def test_random_bits_of_a_longer_request_begin_with_a_shorter_one(
    seed: int, epoch: int, stream: int, count: int
) -> None:
    longer = philox.random_bits(seed, epoch, stream, 65)
    assert longer.dtype == np.uint64
    np.testing.assert_array_equal(philox.random_bits(seed, epoch, stream, count), longer[:count])


def test_streams_epochs_and_seeds_do_not_share_words() -> None:
    requests = [(seed, epoch, stream) for seed in (0, 1) for epoch in (0, 1) for stream in (0, 1, 255)]
    words = np.concatenate([philox.random_bits(*request, 100) for request in requests])
    assert len(np.unique(words)) == len(words)


def test_bits_are_uniform_over_samples() -> None:
    top = philox.sample_bits(7, 0, np.arange(16_000), 3, 5)[:, 4] >> 28
    counts = np.bincount(top, minlength=16)
    chi_square = float(((counts - 1000.0) ** 2 / 1000.0).sum())
    assert chi_square < 37.7  # 15 degrees of freedom, p = 0.001


@pytest.mark.parametrize(
    ("seed", "epoch", "stream"), [(-1, 0, 0), (2**64, 0, 0), (0, 2**32, 0), (0, -1, 0), (0, 0, 256)]
)
def test_numbers_out_of_range_are_refused(seed: int, epoch: int, stream: int) -> None:
    with pytest.raises(UsageError):
        philox.random_bits(seed, epoch, stream, 4)
