"""The order "lanes": fixed sets of blocks that give an epoch its samples in turn (docs/order.md, section 8).

A rank that takes every W-th position takes whole lanes, so it reads their blocks and no others.
"""

from __future__ import annotations

from typing import NamedTuple

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


class LaneParts(NamedTuple):
    """What belongs to which lane, in every epoch: parts of blocks, whole ones but for about one of each lane.

    lane, block: int64 [parts], of each part. part_of: int64 [n], the part of each sample.
    """

    lane: NDArray[np.int64]
    block: NDArray[np.int64]
    part_of: NDArray[np.int64]

    @property
    def lane_of(self) -> NDArray[np.int64]:
        """The lane of each sample: int64 [n]."""
        return self.lane[self.part_of]


def deal_lanes(seed: int, lanes: int, blocks: NDArray[np.integer]) -> LaneParts:
    """Deal samples to lanes of equal length, by whole blocks as far as that can be. blocks: of every sample."""
    counts = np.bincount(blocks)
    used = np.flatnonzero(counts)
    row = used[permutation(random_bits(seed, 0, LANE_STREAM, len(used)))]
    row = row[np.argsort(-counts[row], kind="stable")]
    turn, place = np.divmod(np.arange(len(row)), lanes)
    lane = np.where(turn % 2 == 0, place, lanes - 1 - place)
    by_lane = np.argsort(lane, kind="stable")
    row, lane = row[by_lane], lane[by_lane]
    wanted = lane_sizes(len(blocks), lanes)
    dealt = np.bincount(lane, counts[row], minlength=lanes).astype(np.int64)
    before = np.cumsum(counts[row]) - counts[row] - (np.cumsum(dealt) - dealt)[lane]
    kept = np.clip(wanted[lane] - before, 0, counts[row])
    part_of_block = np.zeros(len(counts), np.int64)
    part_of_block[row] = np.arange(len(row))
    part_of = part_of_block[blocks]
    # What goes elsewhere: the samples of a few blocks, from the first on that is not kept.
    divided = np.flatnonzero((kept < counts[row])[part_of])
    divided = divided[np.argsort(part_of[divided], kind="stable")]
    first = np.flatnonzero(np.append(True, np.diff(part_of[divided]))[: len(divided)])
    number = np.arange(len(divided)) - np.repeat(first, np.diff(np.append(first, len(divided))))
    moved = divided[number >= kept[part_of[divided]]]
    to = np.repeat(np.arange(lanes), np.maximum(0, wanted - dealt))
    changes = np.flatnonzero(np.append(True, (np.diff(to) != 0) | (np.diff(part_of[moved]) != 0))[: len(moved)])
    lane, row = np.append(lane, to[changes]), np.append(row, row[part_of[moved[changes]]])
    part_of[moved] = len(kept) + np.repeat(np.arange(len(changes)), np.diff(np.append(changes, len(moved))))
    return LaneParts(lane, row, part_of)


def lane_sizes(count: int, lanes: int) -> NDArray[np.int64]:
    """How many of `count` samples each lane has."""
    return count // lanes + (np.arange(lanes) < count % lanes)


def lane_order(
    seed: int, epoch: int, lanes: int, group_blocks: int, blocks: NDArray[np.integer], mixed: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rows of `mixed` in the order of an epoch: int64[n]. O(n) but for one sort of 16-bit numbers, if they do.

    blocks: the block of every sample. mixed: the order of "full", as positions in `blocks`.
    """
    if not len(mixed):
        return mixed
    parts = deal_lanes(seed, lanes, blocks)
    used = np.unique(parts.block)
    rank = np.zeros(int(used[-1]) + 1, np.int64)
    rank[used[permutation(random_bits(seed, epoch, BLOCK_STREAM, len(used)))]] = np.arange(len(used))
    present = np.flatnonzero(np.bincount(parts.part_of, minlength=len(parts.lane)))
    row = present[np.lexsort((rank[parts.block[present]], parts.lane[present]))]  # lane by lane
    blocks_in_lane = np.bincount(parts.lane[row], minlength=lanes)
    place = np.arange(len(row)) - np.repeat(np.cumsum(blocks_in_lane) - blocks_in_lane, blocks_in_lane)
    groups_in_lane = -(-blocks_in_lane // group_blocks)
    group_of = np.zeros(len(parts.lane), np.int32)
    group_of[row] = (np.cumsum(groups_in_lane) - groups_in_lane)[parts.lane[row]] + place // group_blocks
    group = group_of[parts.part_of[mixed]]
    narrow = group.astype(np.uint16) if group.max() < 1 << 16 else group  # numpy radix-sorts 16 bits
    sequences = mixed[np.argsort(narrow, kind="stable")]  # that of lane 0, then that of lane 1, ...
    sizes = lane_sizes(len(mixed), lanes)
    ends = np.cumsum(sizes)
    shortest = int(sizes[-1])
    whole = np.concatenate([sequences[end - size : end - size + shortest] for end, size in zip(ends, sizes)])
    last = sequences[ends[: len(mixed) % lanes] - 1]
    return np.concatenate([whole.reshape(lanes, shortest).T.reshape(-1), last])
