"""Arrangements: the vectorised reference equals the obvious one, the mixed one wastes little, neither ever fails."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload.images.format.dts import BLOCK_SIZE, align
from trainload.images.packing import arrange

CAPACITY = 1 << 16
sizes_lists = st.lists(
    st.one_of(st.integers(1, CAPACITY), st.integers(1, 500), st.sampled_from([64, 65, 4096, CAPACITY])),
    min_size=1,
    max_size=120,
)


def obvious_reference(sizes: list[int], capacity: int, min_blocks: int) -> list[list[int]]:
    """docs/spec/dts.md, section 5, word for word, over lists of [number, aligned size]."""
    rest = sorted(([n, align(size)] for n, size in enumerate(sizes)), key=lambda pair: pair[1])
    blocks: list[list[list[int]]] = [[] for _ in range(min_blocks)]
    space = [capacity] * min_blocks

    def put(block: int, pair: list[int]) -> None:
        blocks[block].append(pair)
        space[block] -= pair[1]

    for block in range(min_blocks):
        if rest:
            put(block, rest.pop())
    random.Random(42).shuffle(rest)
    for block in range(min_blocks):
        while rest and rest[-1][1] <= space[block]:
            put(block, rest.pop())
    for _ in range(32):
        pairs = sorted(zip(space, blocks))
        space, blocks = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        rest.sort(key=lambda pair: pair[1], reverse=True)
        for block in range(min_blocks):
            if rest and rest[-1][1] <= space[block]:
                put(block, rest.pop())
    random.Random(42).shuffle(rest)
    block = min_blocks - 1
    while rest:
        if rest[-1][1] > space[block]:
            blocks.append([])
            space.append(capacity)
            block += 1
        put(block, rest.pop())
    return [[n for n, _ in block] for block in blocks if block]


def assert_is_arrangement(blocks: list[np.ndarray], sizes: list[int], capacity: int, max_count: int) -> None:
    assert sorted(n for block in blocks for n in block) == list(range(len(sizes)))
    for block in blocks:
        assert 1 <= len(block) <= max_count
        assert sum(align(sizes[n]) for n in block) <= capacity


@settings(max_examples=300, deadline=None)
@given(sizes=sizes_lists, min_blocks=st.integers(1, 40))
def test_the_reference_arrangement_equals_the_obvious_one(sizes: list[int], min_blocks: int) -> None:
    found = arrange.reference_arrangement(sizes, CAPACITY, min_blocks)
    assert [block.tolist() for block in found] == obvious_reference(sizes, CAPACITY, min_blocks)


def test_the_reference_arrangement_equals_the_obvious_one_on_a_large_set() -> None:
    sizes = np.random.default_rng(5).lognormal(11.3, 0.62, 20_000).astype(int).clip(600, 15_000_000).tolist()
    capacity = BLOCK_SIZE - 4096
    found = arrange.reference_arrangement(sizes, capacity, 120)
    assert [block.tolist() for block in found] == obvious_reference(sizes, capacity, 120)


@settings(max_examples=200, deadline=None)
@given(sizes=sizes_lists)
def test_auto_is_never_worse_than_the_genuine_share_and_holds_every_picture_once(sizes: list[int]) -> None:
    blocks = arrange.reference_arrangement(sizes, CAPACITY)
    assert_is_arrangement(blocks, sizes, CAPACITY, len(sizes))
    share = max(1, round(arrange.GENUINE_SHARE * arrange.lower_bound(sizes, CAPACITY)))
    assert len(blocks) <= len(arrange.reference_arrangement(sizes, CAPACITY, share))


@settings(max_examples=300, deadline=None)
@given(sizes=sizes_lists, max_count=st.integers(1, 50), seed=st.integers(0, 9))
def test_the_mixed_arrangement_holds_every_picture_once_within_room_and_count(
    sizes: list[int], max_count: int, seed: int
) -> None:
    order = arrange.random_order(len(sizes), seed)
    assert_is_arrangement(arrange.mixed_arrangement(sizes, order, CAPACITY, max_count), sizes, CAPACITY, max_count)


@pytest.mark.parametrize(
    "sizes",
    [
        [1],
        [64] * 5000,
        [CAPACITY],
        [CAPACITY] * 7,
        [CAPACITY, *[1] * 3000],
        [*[1] * 3000, CAPACITY],
        [CAPACITY // 2 + 1] * 9,
    ],
    ids=["one", "equal", "one full", "all full", "huge first", "huge last", "just over half"],
)
def test_no_list_of_sizes_makes_an_arrangement_fail(sizes: list[int]) -> None:
    order = arrange.random_order(len(sizes), 0)
    assert_is_arrangement(arrange.mixed_arrangement(sizes, order, CAPACITY, 10**6), sizes, CAPACITY, 10**6)
    assert_is_arrangement(arrange.reference_arrangement(sizes, CAPACITY), sizes, CAPACITY, len(sizes))


@pytest.mark.parametrize("at", [0, 500, 1000])
def test_a_picture_larger_than_a_block_is_alone_and_fails_nothing(at: int) -> None:
    sizes = [100] * 1000
    sizes.insert(at, 3 * CAPACITY)
    blocks = arrange.mixed_arrangement(sizes, arrange.random_order(len(sizes), 0), CAPACITY, 10**6)
    assert [at] in [block.tolist() for block in blocks]
    assert sorted(np.concatenate(blocks)) == list(range(1001))
    assert sorted(np.concatenate(arrange.reference_arrangement(sizes, CAPACITY))) == list(range(1001))


def lognormal(count: int) -> np.ndarray:
    mean, sigma = 110_000, 0.62
    draws = np.random.default_rng(1).lognormal(np.log(mean) - sigma * sigma / 2, sigma, count)
    return draws.clip(600, 15_000_000).astype(np.int64)


def test_the_mixed_arrangement_leaves_a_twentieth_of_a_percent_in_all_but_the_last_block() -> None:
    sizes, capacity = lognormal(60_000), BLOCK_SIZE - 4096
    blocks = arrange.mixed_arrangement(sizes, arrange.random_order(len(sizes), 42), capacity, 340)
    used = np.array([arrange.aligned_sizes(sizes[block]).sum() for block in blocks[:-1]])
    assert 1 - used.sum() / (len(used) * capacity) < 0.0005


def test_mixed_blocks_are_random_samples_of_classes_and_sizes() -> None:
    sizes, capacity = lognormal(60_000), BLOCK_SIZE - 4096
    labels = np.arange(len(sizes)) * 100 // len(sizes)  # sorted by class, as the source lists them
    blocks = arrange.mixed_arrangement(sizes, arrange.random_order(len(sizes), 42), capacity, 340)
    full = blocks[: -arrange.WINDOW_BLOCKS]
    classes = np.mean([len(np.unique(labels[block])) for block in full])
    expected = np.mean([100 * (1 - 0.99 ** len(block)) for block in full])
    assert abs(classes / expected - 1) < 0.02
    overall = np.median(sizes)
    assert abs(np.mean([np.median(sizes[block]) for block in full]) / overall - 1) < 0.05


def test_another_seed_gives_another_arrangement_and_the_same_seed_the_same() -> None:
    sizes = lognormal(2_000)
    one, again, other = (
        arrange.mixed_arrangement(sizes, arrange.random_order(2_000, seed), 1 << 24, 340) for seed in (1, 1, 2)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, again))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other))
