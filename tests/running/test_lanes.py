"""The order "lanes" is that of docs/order.md, section 8, written here as slowly and plainly as it can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload.errors import UsageError
from trainload.running.lanes import check_lanes, check_ranks, deal_lanes
from trainload.running.order import Cut, OrderRule, cut_order, epoch_order
from trainload.running.philox import random_bits


def permuted(items: list[int], seed: int, epoch: int, stream: int) -> list[int]:
    """Sections 1 and 2 of the law."""
    keys = [int(key) for key in random_bits(seed, epoch, stream, len(items))]
    bits = max(len(items) - 1, 1).bit_length()
    keyed = sorted((key >> bits << bits) | n for n, key in enumerate(keys))
    return [items[key & ((1 << bits) - 1)] for key in keyed]


def lanes_by_law(seed: int, lanes: int, block_of: list[int]) -> list[int]:
    """The lane of each sample."""
    row = permuted(sorted(set(block_of)), seed, 0, 3)
    row.sort(key=lambda block: -block_of.count(block))
    members: list[list[int]] = [[] for _ in range(lanes)]
    for i, block in enumerate(row):
        q, j = divmod(i, lanes)
        members[j if q % 2 == 0 else lanes - 1 - j] += [n for n, b in enumerate(block_of) if b == block]
    wanted = [len(block_of) // lanes + (c < len(block_of) % lanes) for c in range(lanes)]
    beyond = [n for c in range(lanes) for n in members[c][wanted[c] :]]
    lane_of = [-1] * len(block_of)
    for c in range(lanes):
        mine = members[c][: wanted[c]]
        while len(mine) < wanted[c]:
            mine.append(beyond.pop(0))
        for n in mine:
            lane_of[n] = c
    return lane_of


def order_by_law(rule: OrderRule, epoch: int, ids: list[int], block_of: list[int]) -> list[int]:
    lane_of = lanes_by_law(rule.seed, rule.lanes, block_of)
    row = permuted(sorted(set(block_of)), rule.seed, epoch, 1)
    mixed = permuted(list(range(len(ids))), rule.seed, epoch, 0)
    sequences = []
    for lane in range(rule.lanes):
        sequence = [n for n in mixed if lane_of[n] == lane]
        blocks = [block for block in row if block in {block_of[n] for n in sequence}]
        sequence.sort(key=lambda n: blocks.index(block_of[n]) // rule.group_blocks)
        sequences.append(sequence)
    return [ids[sequences[p % rule.lanes][p // rule.lanes]] for p in range(len(ids))]


@st.composite
def sets(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Ids, the block of each, a number of lanes that they are enough for."""
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=24).filter(any))
    blocks = [block for block, size in enumerate(sizes) for _ in range(size)]
    chosen = draw(st.permutations(range(len(blocks)))) if draw(st.booleans()) else list(range(len(blocks)))
    ids = chosen[: draw(st.integers(1, len(chosen)))]
    block_of = [blocks[n] for n in ids]
    return ids, block_of, draw(st.integers(1, len(set(block_of))))


@settings(max_examples=150, deadline=None)
@given(sets(), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_the_order_is_that_of_the_written_law(chosen, seed, epoch, group_blocks):
    ids, block_of, lanes = chosen
    rule = OrderRule(seed, "lanes", group_blocks, lanes=lanes)
    order = epoch_order(rule, epoch, np.array(ids), np.array(block_of))
    assert order.tolist() == order_by_law(rule, epoch, ids, block_of)
    assert deal_lanes(seed, lanes, np.array(block_of)).lane_of.tolist() == lanes_by_law(seed, lanes, block_of)


def test_positions_come_from_the_lanes_in_turn():
    block_of = np.repeat(np.arange(30), np.random.default_rng(0).integers(5, 9, 30))
    rule = OrderRule(1, "lanes", 2, lanes=4)
    lane = deal_lanes(1, 4, block_of).lane_of
    for epoch in range(3):
        order = epoch_order(rule, epoch, np.arange(len(block_of)), block_of)
        assert sorted(order.tolist()) == list(range(len(block_of)))
        assert (lane[order] == np.arange(len(block_of)) % 4).all()


def test_about_one_block_of_each_lane_is_in_another_too():
    for blocks in range(8, 60):
        block_of = np.repeat(np.arange(blocks), np.random.default_rng(blocks).integers(80, 121, blocks))
        parts = deal_lanes(3, 8, block_of)
        assert len(np.unique(parts.part_of)) <= blocks + 2 * 8


def cut_by_law(cut: Cut, total: int, position: int, repeat: int) -> list[list[int]]:
    """Section 8, "Cut"."""
    batches = []
    while position < total:
        step = [p for p in range(position, position + cut.step) if p // repeat % cut.world_size == cut.rank]
        position += cut.step
        if position > total:
            if cut.last == "drop":
                break
            step = [p % total for p in step] if cut.last == "pad" else [p for p in step if p < total]
        batches.append(step)
    return batches


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 60),
    st.integers(0, 60),
    st.sampled_from(["short", "drop", "pad"]),
)
def test_the_cut_is_that_of_the_written_law(ranks, batch, repeat, units, start, last):
    total, position = units * repeat, min(start, units) * repeat
    whole: list[int] = []
    for rank in range(ranks):
        cut = Cut(batch * repeat, rank, ranks, last)
        share = cut_order(cut, total, position, in_turn=repeat)
        batches = [share.positions[a:b].tolist() for a, b in zip(share.bounds, share.bounds[1:])]
        assert batches == cut_by_law(cut, total, position, repeat)
        assert len(batches) == cut.num_batches(total, position)
        whole += share.positions.tolist()
    if last == "short":
        assert sorted(whole) == list(range(position, total))


def test_devices_are_ranks():
    share = cut_order(Cut(3, 1, 2, "short", devices=2), 50, 4, in_turn=1)
    alone = [cut_order(Cut(3, rank, 4), 50, 4, in_turn=1) for rank in (2, 3)]
    found = [share.positions[a:b].tolist() for a, b in zip(share.bounds, share.bounds[1:])]
    each = [[one.positions[a:b].tolist() for a, b in zip(one.bounds, one.bounds[1:])] for one in alone]
    assert found == [batch for step in zip(*each) for batch in step]


def test_what_cannot_be_is_refused_with_the_way_out():
    with pytest.raises(UsageError, match=r"8 lanes to 3 ranks.*one of 1, 2, 4, 8 ranks, or begin a run with lanes=3"):
        check_ranks(8, 3)
    with pytest.raises(UsageError, match=r"lanes is 8, and the samples lie in 5 blocks.*lanes=5"):
        check_lanes(8, np.arange(5))
