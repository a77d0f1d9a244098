"""The order "lanes": fixed sets of blocks that give an epoch its samples in turn (docs/order.md, section 8).

A rank that takes every W-th position takes whole lanes, so it reads their blocks and no others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.running.permutation import BLOCK_STREAM, LANE_STREAM, permutation
from trainload.running.philox import random_bits

LANES = 8  # left out; on every machine, since it is part of the order


def check_lanes(lanes: int, blocks: NDArray[np.integer]) -> None:
    """Raise UsageError where some lane would be empty. blocks: the block of every sample."""
    used = int(np.count_nonzero(np.bincount(blocks))) if len(blocks) else 0
    if 0 < used < lanes:
        raise UsageError(
            f"lanes is {lanes}, and the samples lie in {used} blocks: each lane needs one; give "
            f"lanes={max(used, 1)} or fewer, or shuffle='full'"
        )


def check_ranks(lanes: int, ranks: int) -> None:
    """Raise UsageError where ranks (each device counts as one) cannot take whole lanes."""
    if lanes % ranks:
        fit = [n for n in range(1, lanes + 1) if lanes % n == 0]
        raise UsageError(
            f"shuffle='lanes' deals {lanes} lanes to {ranks} ranks, which must divide them: train with one of "
            f"{', '.join(map(str, fit))} ranks, or begin a run with lanes={ranks}, or a multiple (lanes are part of "
            "the order); shuffle='group' and 'full' take any number of ranks"
        )


def lanes_of_blocks(seed: int, lanes: int, blocks: NDArray[np.integer]) -> NDArray[np.int32]:
    """The lane of each block, the same in every epoch: int32[highest block + 1], -1 for blocks that are not used."""
    counts = np.bincount(blocks)
    used = np.flatnonzero(counts)
    row = used[permutation(random_bits(seed, 0, LANE_STREAM, len(used)))]
    row = row[np.argsort(-counts[row], kind="stable")]
    turn, place = np.divmod(np.arange(len(row)), lanes)
    found = np.full(len(counts), -1, np.int32)
    found[row] = np.where(turn % 2 == 0, place, lanes - 1 - place)
    return found


def lane_order(
    seed: int, epoch: int, lanes: int, group_blocks: int, blocks: NDArray[np.integer], mixed: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rows of `mixed` in the order of an epoch: int64[n]. O(n) but for one sort of 16-bit numbers, if they do.

    blocks: the block of every sample. mixed: the order of "full", as positions in `blocks`.
    """
    if not len(mixed):
        return mixed
    lane_of = lanes_of_blocks(seed, lanes, blocks)
    used = np.flatnonzero(lane_of >= 0)
    row = used[permutation(random_bits(seed, epoch, BLOCK_STREAM, len(used)))]
    row = row[np.argsort(lane_of[row], kind="stable")]  # lane by lane, each in the order of the permutation
    blocks_in_lane = np.bincount(lane_of[row], minlength=lanes)
    place = np.arange(len(row)) - np.repeat(np.cumsum(blocks_in_lane) - blocks_in_lane, blocks_in_lane)
    groups_in_lane = -(-blocks_in_lane // group_blocks)
    group_of = np.zeros(len(lane_of), np.int32)
    group_of[row] = (np.cumsum(groups_in_lane) - groups_in_lane)[lane_of[row]] + place // group_blocks
    group = group_of[blocks[mixed]]
    narrow = group.astype(np.uint16) if group.max() < 1 << 16 else group  # numpy radix-sorts 16 bits
    sequences = mixed[np.argsort(narrow, kind="stable")]  # that of lane 0, then that of lane 1, ...
    sizes = np.bincount(lane_of[used], np.bincount(blocks)[used], minlength=lanes)
    return _in_turn(sequences, sizes.astype(np.int64))


def _in_turn(sequences: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first of each sequence, then the second of each, ...: sequences of these sizes lie one after another."""
    shortest, starts = int(sizes.min()), np.cumsum(sizes) - sizes
    whole = np.concatenate([sequences[start : start + shortest] for start in starts]).reshape(len(sizes), shortest)
    left = np.concatenate([sequences[start + shortest : start + size] for start, size in zip(starts, sizes)])
    more = sizes - shortest
    lane = np.repeat(np.arange(len(sizes)), more)
    number = np.arange(len(left)) - np.repeat(np.cumsum(more) - more, more)
    return np.concatenate([whole.T.reshape(-1), left[np.lexsort((lane, number))]])
