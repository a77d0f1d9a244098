"""Which sample when: the order of an epoch and its cut into the batches of each rank. Pure: no files, no threads.

The law is docs/order.md, in the versions 1 to 4. An order depends on (seed, epoch, shuffle kind, group size) and the
set alone, so it is the same for any number of threads; ranks only cut what is already in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.running.lanes import lane_order
from trainload.running.permutation import BLOCK_STREAM, SAMPLE_STREAM, WEIGHT_STREAM, permutation
from trainload.running.philox import random_bits

Shuffle = Literal["none", "group", "full", "lanes", "weighted"]
AskedShuffle = Literal["auto", "none", "group", "full", "lanes"] | bool
Last = Literal["short", "drop", "pad"]
LAW_VERSION = 2
REPEAT_VERSION = 3  # of the states of loaders whose positions come several times,
LANES_VERSION = 4  # of those whose order is "lanes"; all else is version 2
DRAWS_SINCE = 2  # the version from which on a sample that an epoch repeats has a draw number of its own
MOST_REPEATED = 1 << 32  # ids and positions of orders with repeats: what a draw number's counter has room for
SHUFFLES: tuple[Shuffle, ...] = ("none", "group", "full", "lanes", "weighted")
LASTS: tuple[Last, ...] = ("short", "drop", "pad")
EPOCHS = 1 << 32  # epochs count from 0; docs/order.md gives them 32 bits


@dataclass(frozen=True, slots=True)
class OrderRule:
    """Everything but the set and the epoch that an order depends on.

    group_blocks: of "group" and "lanes" alone. lanes: how many there are; of "lanes" alone, else 0.
    version: of the law. A run that began under an older one goes on under it.
    """

    seed: int
    shuffle: Shuffle
    group_blocks: int
    version: int = LAW_VERSION
    lanes: int = 0


def checked_epoch(epoch: int) -> int:
    """The epoch as an int. Raises UsageError for what is no epoch."""
    if not 0 <= epoch < EPOCHS:
        raise UsageError(f"epoch {epoch} is not in 0 .. 2^32 - 1")
    return int(epoch)


def checked_seed(seed: int) -> int:
    """The seed as an int. Raises UsageError for what is no seed."""
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"seed {seed} is not in 0 .. 2^64 - 1")
    return int(seed)


def block_groups(rule: OrderRule, epoch: int, blocks: NDArray[np.integer]) -> NDArray[np.int32]:
    """The buffer group in which each block is consumed: int32[highest block + 1], -1 for blocks that are not used.

    `blocks`: the block of every sample, in any order. Under "group" the blocks that occur are permuted, then every
    `group_blocks` of them form a group; under the other kinds they keep the order of the file.
    """
    used = np.flatnonzero(np.bincount(blocks)) if len(blocks) else np.empty(0, np.int64)
    if rule.shuffle == "group":
        used = used[permutation(random_bits(rule.seed, epoch, BLOCK_STREAM, len(used)))]
    groups = np.full(int(used.max(initial=-1)) + 1, -1, np.int32)
    groups[used] = np.arange(len(used)) // rule.group_blocks
    return groups


def epoch_order(
    rule: OrderRule,
    epoch: int,
    ids: NDArray[np.int64],
    blocks: NDArray[np.integer],
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """The sample ids of one epoch in order: int64[n], a permutation of `ids` (under "weighted" drawn from them).

    ids: the samples of the set that are used. blocks: the block of each of them. weights: for "weighted", how often
    each is drawn, relative to the others. 1.3 million samples take about 60 ms.
    """
    if rule.shuffle == "none":
        return ids
    if rule.shuffle == "weighted":
        assert weights is not None
        return ids[_weighted_draws(rule.seed, epoch, weights)]
    order = permutation(random_bits(rule.seed, epoch, SAMPLE_STREAM, len(ids)))
    if rule.shuffle == "group":
        group = block_groups(rule, epoch, blocks)[blocks[order]]
        narrow = group.astype(np.uint16) if group.max(initial=0) < 1 << 16 else group  # numpy radix-sorts 16 bits
        order = order[np.argsort(narrow, kind="stable")]
    if rule.shuffle == "lanes":
        order = lane_order(rule.seed, epoch, rule.lanes, rule.group_blocks, blocks, order)
    return ids[order]


def _weighted_draws(seed: int, epoch: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """As many draws with replacement as there are weights: inverse of the cumulative sum at 53-bit uniforms."""
    cumulative = np.cumsum(weights)
    uniform = (random_bits(seed, epoch, WEIGHT_STREAM, len(weights)) >> np.uint64(11)) * 2.0**-53
    draws = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    most = np.flatnonzero(weights)[-1]  # the product may round up to the total
    return np.asarray(np.minimum(draws, most), np.int64)


def draw_numbers(order: NDArray[np.int64]) -> NDArray[np.uint32]:
    """How many earlier positions of an order hold the same id: uint32 [n]. Ids and n: at most 2^32. O(n log n)."""
    index_bits = np.uint64(max(len(order) - 1, 1).bit_length())
    keyed = (order.astype(np.uint64) << index_bits) | np.arange(len(order), dtype=np.uint64)
    keyed.sort()
    ids = keyed >> index_bits
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    runs = np.diff(np.append(first, len(ids)))
    draws = np.empty(len(order), np.uint32)
    draws[keyed & ((np.uint64(1) << index_bits) - np.uint64(1))] = np.arange(len(ids)) - np.repeat(first, runs)
    return draws


@dataclass(frozen=True, slots=True)
class Cut:
    """How ranks share a global order: a step takes world_size x batch_size positions, rank r the r-th batch of them.

    devices: of each process, which then has as many batches in a step: those of `devices` ranks in a row, out of
    world_size x devices.
    """

    batch_size: int
    rank: int = 0
    world_size: int = 1
    last: Last = "short"
    devices: int = 1

    @property
    def ranks(self) -> int:
        """How many share a step, where each device counts as one."""
        return self.world_size * self.devices

    @property
    def step(self) -> int:
        """Positions of the global order that one step of all ranks consumes."""
        return self.batch_size * self.ranks

    def num_batches(self, total: int, position: int = 0) -> int:
        """Steps from `position` to the end of an order of `total` positions: batches of each rank, or device."""
        left = total - position
        return left // self.step if self.last == "drop" else -(-left // self.step)


@dataclass(frozen=True, slots=True)
class RankBatches:
    """One rank's share. Batch b holds positions[bounds[b]:bounds[b+1]]; after it the ranks have consumed ends[b]."""

    positions: NDArray[np.int64]
    bounds: NDArray[np.int64]
    ends: NDArray[np.int64]


def cut_order(cut: Cut, total: int, position: int = 0, *, in_turn: int = 0) -> RankBatches:
    """The batches of one rank from global position `position` on. All ranks get the same number of batches.

    in_turn: N where ranks take N positions each in turn, which is how they take whole lanes; 0: a batch each.

    With several devices, those of a step follow one another in the devices' order; after all but the last of them the
    ranks have consumed what they had before the step.

    The tail that fills no whole step: "drop" leaves it out, "pad" fills it from the start of the order, "short" deals
    it out in batches whose sizes differ by at most one (0 for the last ranks where it has fewer samples than ranks).
    """
    if cut.devices > 1:
        shares = [cut_order(one, total, position, in_turn=in_turn) for one in _device_cuts(cut)]
        return _interleaved(shares, position)
    steps = (total - position) // cut.step
    starts = position + cut.step * np.arange(steps, dtype=np.int64)
    positions = (starts[:, None] + _of_a_step(cut, position, in_turn)).reshape(-1)
    sizes = np.full(steps, cut.batch_size, np.int64)
    tail_start = position + steps * cut.step
    ends = tail_start - cut.step * np.arange(steps - 1, -1, -1, dtype=np.int64)
    if tail_start < total and cut.last != "drop":
        tail = _tail_positions(cut, tail_start, total, in_turn)
        positions = np.concatenate([positions, tail])
        sizes = np.append(sizes, len(tail))
        ends = np.append(ends, total)
    return RankBatches(positions, np.concatenate([[0], np.cumsum(sizes)]), ends)


def _device_cuts(cut: Cut) -> list[Cut]:
    """Each device as a rank of its own."""
    first, ranks = cut.rank * cut.devices, cut.world_size * cut.devices
    return [Cut(cut.batch_size, first + device, ranks, cut.last) for device in range(cut.devices)]


def _interleaved(shares: list[RankBatches], position: int) -> RankBatches:
    """The batches of several ranks by step. position: of the global order, before all of them."""
    bounds = [share.bounds for share in shares]
    batches = [
        share.positions[at[n] : at[n + 1]] for n in range(len(shares[0].ends)) for share, at in zip(shares, bounds)
    ]
    ends = np.repeat(np.append(position, shares[0].ends)[:-1], len(shares))
    ends[len(shares) - 1 :: len(shares)] = shares[0].ends
    sizes = np.array([len(batch) for batch in batches], np.int64)
    positions = np.concatenate([np.empty(0, np.int64), *batches])
    return RankBatches(positions, np.concatenate([[0], np.cumsum(sizes)]), ends)


def _of_a_step(cut: Cut, start: int, in_turn: int) -> NDArray[np.int64]:
    """What the rank takes of a step that begins at `start`, counted from there."""
    if not in_turn:
        return cut.rank * cut.batch_size + np.arange(cut.batch_size)
    first = (cut.rank - start // in_turn) % cut.world_size
    turns = first + cut.world_size * np.arange(cut.batch_size // in_turn)
    return (turns[:, None] * in_turn + np.arange(in_turn)).reshape(-1)


def _tail_positions(cut: Cut, start: int, total: int, in_turn: int) -> NDArray[np.int64]:
    if cut.last == "pad" or in_turn:
        positions = start + _of_a_step(cut, start, in_turn)
        return positions % total if cut.last == "pad" else positions[positions < total]
    each, more = divmod(total - start, cut.world_size)
    first = start + cut.rank * each + min(cut.rank, more)
    return np.arange(first, first + each + (cut.rank < more))
