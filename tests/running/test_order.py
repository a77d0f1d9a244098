"""The order of an epoch is a pure permutation, and ranks cut it without losing, repeating or moving a sample."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core_testing import core_testing
from trainload.running.order import (
    LASTS,
    Cut,
    Last,
    OrderRule,
    Shuffle,
    block_groups,
    cut_order,
    epoch_order,
)
from trainload.running.permutation import SAMPLE_STREAM, permutation

SETS = st.tuples(st.integers(1, 300), st.integers(1, 40))  # samples, samples per block


def order_of(
    n: int, per_block: int, *, seed: int = 0, epoch: int = 0, shuffle: Shuffle = "group", group_blocks: int = 8
):
    ids = np.arange(n)
    return epoch_order(OrderRule(seed, shuffle, group_blocks), epoch, ids, ids // per_block)


@given(SETS, st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.sampled_from(["none", "group", "full"]))
def test_every_order_holds_each_sample_once(shape, seed, epoch, shuffle):
    order = order_of(*shape, seed=seed, epoch=epoch, shuffle=shuffle)
    assert np.array_equal(np.sort(order), np.arange(shape[0]))


def test_orders_are_fixed_for_ever():
    assert order_of(12, 3, seed=7, epoch=2, shuffle="full").tolist() == FULL_7_2
    assert order_of(12, 3, seed=7, epoch=2, group_blocks=2).tolist() == GROUP_7_2


FULL_7_2 = [8, 0, 4, 7, 10, 9, 11, 2, 5, 1, 6, 3]
GROUP_7_2 = [4, 10, 9, 11, 5, 3, 8, 0, 7, 2, 1, 6]


@pytest.mark.parametrize("shuffle", ["group", "full"])
def test_seed_and_epoch_change_the_order(shuffle):
    orders = {tuple(order_of(200, 10, seed=s, epoch=e, shuffle=shuffle)) for s in (0, 1, 2**40) for e in (0, 1, 2)}
    assert len(orders) == 9


@given(SETS, st.integers(1, 9))
def test_group_order_finishes_a_group_of_blocks_before_the_next(shape, group_blocks):
    n, per_block = shape
    rule = OrderRule(3, "group", group_blocks)
    order = epoch_order(rule, 1, np.arange(n), np.arange(n) // per_block)
    groups = block_groups(rule, 1, np.arange(n) // per_block)[order // per_block]
    assert (np.diff(groups) >= 0).all()
    blocks_of_group = [len({i // per_block for i in order[groups == g]}) for g in range(groups.max() + 1)]
    assert all(count == group_blocks for count in blocks_of_group[:-1])


def test_equal_keys_keep_their_order():
    assert permutation(np.zeros(5, np.uint64)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_tiny_permutations_are_whole(n):
    assert sorted(permutation(np.full(n, 2**64 - 1, np.uint64))) == list(range(n))


def test_every_position_is_equally_likely():
    counts = np.zeros((6, 6))
    for seed in range(3000):
        counts[np.arange(6), order_of(6, 6, seed=seed, shuffle="full")] += 1
    assert abs(counts - 500).max() < 110  # five standard deviations


def test_weighted_draws_follow_the_weights():
    weights = np.array([0.0, 1.0, 0.0, 3.0, 0.0])
    ids = np.arange(5) + 100
    draws = np.concatenate(
        [epoch_order(OrderRule(1, "weighted", 8), e, ids, np.zeros(5, int), weights) for e in range(2000)]
    )
    counts = np.bincount(draws - 100, minlength=5)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    assert abs(counts[3] / counts.sum() - 0.75) < 0.02


cuts = st.tuples(st.integers(0, 200), st.integers(1, 9), st.integers(1, 9), st.sampled_from(LASTS), st.integers(0, 200))


def shares(total: int, batch: int, world: int, last: Last, position: int):
    return [cut_order(Cut(batch, rank, world, last), total, position) for rank in range(world)]


@given(cuts)
def test_all_ranks_make_the_same_number_of_batches_with_the_same_ends(case):
    total, batch, world, last, position = case
    ranks = shares(total, batch, world, last, min(position, total))
    count = Cut(batch, 0, world, last).num_batches(total, min(position, total))
    for share in ranks:
        assert len(share.ends) == count == len(share.bounds) - 1
        assert np.array_equal(share.ends, ranks[0].ends)
        assert share.bounds[-1] == len(share.positions)
    if last != "short":
        assert all((np.diff(share.bounds) == batch).all() for share in ranks)


@given(cuts, st.integers(2, 4))
def test_the_devices_of_a_process_have_the_batches_of_as_many_ranks_step_by_step(case, devices):
    total, batch, world, last, position = case
    position = min(position, total)
    ranks = shares(total, batch, world * devices, last, position)
    for rank in range(world):
        found = cut_order(Cut(batch, rank, world, last, devices), total, position)
        own = ranks[rank * devices : (rank + 1) * devices]
        assert np.array_equal(found.positions, interleave(own))
        assert np.array_equal(np.diff(found.bounds).reshape(-1, devices).T, [np.diff(each.bounds) for each in own])
        assert np.array_equal(found.ends[devices - 1 :: devices], own[0].ends)
        before = np.append(position, own[0].ends)[:-1]
        assert all(np.array_equal(found.ends[n::devices], before) for n in range(devices - 1))


def interleave(ranks) -> np.ndarray:
    """The ranks' batches, step by step, as one global stream."""
    pieces = [s.positions[s.bounds[b] : s.bounds[b + 1]] for b in range(len(ranks[0].ends)) for s in ranks]
    return np.concatenate([np.empty(0, np.int64), *pieces])


@given(cuts)
def test_the_union_over_ranks_is_the_rest_of_the_order(case):
    total, batch, world, last, position = case
    position = min(position, total)
    stream = interleave(shares(total, batch, world, last, position))
    rest = np.arange(position, total)
    whole = len(rest) // (batch * world) * batch * world
    if last == "short":
        assert np.array_equal(stream, rest)
    elif last == "drop":
        assert np.array_equal(stream, rest[:whole])
    else:
        assert np.array_equal(stream[: len(rest)], rest)
        assert np.array_equal(stream[len(rest) :], np.arange(total, total + len(stream) - len(rest)) % max(total, 1))


@settings(max_examples=60)
@given(st.integers(1, 400), st.integers(1, 6), st.lists(st.sampled_from([1, 2, 8]), min_size=1, max_size=6))
def test_changing_ranks_in_mid_epoch_keeps_the_global_stream(total, batch, worlds):
    position, pieces = 0, []
    for world in worlds:  # two steps with each number of ranks
        ranks = shares(total, batch, world, "short", position)
        for b in range(min(2, len(ranks[0].ends))):
            pieces += [s.positions[s.bounds[b] : s.bounds[b + 1]] for s in ranks]
            position = int(ranks[0].ends[b])
    pieces.append(interleave(shares(total, batch, 1, "short", position)))
    assert np.array_equal(np.concatenate(pieces), np.arange(total))


def test_order_of_a_subset_is_drawn_from_its_ids():
    ids = np.array([5, 9, 30, 31, 77])
    order = epoch_order(OrderRule(0, "group", 2), 0, ids, ids // 10)
    assert sorted(order) == ids.tolist()
    assert SAMPLE_STREAM == 0  # part of the law


# docs/order.md again, in plain Python and word for word


def word(seed: int, epoch: int, stream: int, n: int) -> int:
    m = n // 2
    counter = (m & 0xFFFFFFFF, m >> 32, epoch, (0xFF00 + stream) << 16)
    out = core_testing.philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))
    return out[0] | out[1] << 32 if n % 2 == 0 else out[2] | out[3] << 32


def law_permutation(seed: int, epoch: int, stream: int, n: int) -> list[int]:
    bits = max(n - 1, 1).bit_length()
    keys = sorted((word(seed, epoch, stream, i) >> bits << bits) | i for i in range(n))
    return [key & ((1 << bits) - 1) for key in keys]


def law_order(rule: OrderRule, epoch: int, samples: list[int], block_of: dict[int, int], weights: list[float]):
    if rule.shuffle == "none":
        return samples
    if rule.shuffle == "weighted":
        sums = list(accumulate(weights))
        drawn = ((word(rule.seed, epoch, 2, i) >> 11) * 2.0**-53 * sums[-1] for i in range(len(samples)))
        return [next(s for s, total in zip(samples, sums) if total > u) for u in drawn]
    order = [samples[i] for i in law_permutation(rule.seed, epoch, 0, len(samples))]
    if rule.shuffle == "group":
        blocks = sorted({block_of[s] for s in samples})
        permuted = [blocks[i] for i in law_permutation(rule.seed, epoch, 1, len(blocks))]
        order.sort(key=lambda s: permuted.index(block_of[s]) // rule.group_blocks)
    return order


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "full", "group", "weighted"]),
    st.lists(st.integers(0, 80), min_size=1, max_size=40, unique=True),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_orders_are_those_of_the_written_law(seed, epoch, shuffle, samples, per_block, group_blocks):
    rule = OrderRule(seed, shuffle, group_blocks)
    ids = np.array(samples)
    weights = 1.0 + ids % 5
    blocks = {s: s // per_block for s in samples}
    expected = law_order(rule, epoch, samples, blocks, weights.tolist())
    assert epoch_order(rule, epoch, ids, ids // per_block, weights).tolist() == expected
