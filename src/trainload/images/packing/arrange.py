"""Which picture goes into which block: pure, sizes in, lists of picture numbers out. Knows no files and no pixels.

Two arrangements (docs/spec/dts.md, section 5). The reference one repeats the genuine exporter pick by pick. The mixed
one keeps a random order too, and closes each block with the pictures of a window that fill it best.
Sizes are true bytes; every function rounds them up to PICTURE_ALIGNMENT itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from trainload.images.format.dts import PICTURE_ALIGNMENT

REFERENCE_SEED = 42
MARGIN_ROUNDS = 32
GENUINE_SHARE = 0.993  # the exporter's number of blocks to open with, of the lower bound
SEARCH_STEPS = 3  # numbers that are tried after that one
WINDOW_BLOCKS = 4  # a block is closed with the best of the next pictures, as many as fill this many blocks

Index = NDArray[np.int64]


def random_order(count: int, seed: int) -> Index:
    """The numbers 0..count-1, int64, shuffled as CPython's `random.Random(seed).shuffle` does it."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return np.array(order, np.int64)


def aligned_sizes(sizes: NDArray[np.int64] | Sequence[int]) -> Index:
    """Each size rounded up to a multiple of PICTURE_ALIGNMENT, int64."""
    return -(-np.asarray(sizes, np.int64) // PICTURE_ALIGNMENT) * PICTURE_ALIGNMENT


def lower_bound(sizes: NDArray[np.int64] | Sequence[int], capacity: int) -> int:
    """No arrangement ends in fewer blocks than this: the aligned bytes over the capacity, rounded up."""
    return -(-int(aligned_sizes(sizes).sum()) // capacity)


# ---- mixed ---------------------------------------------------------------------------------------------------------


def fill_block(sizes: Index, capacity: int, max_count: int) -> Index:
    """Positions in a window of `sizes` (aligned, in random order) that make one full block, ascending order not kept.

    Takes the window in its order, passing over what does not fit, until about two pictures are missing; then the one
    or two pictures of the rest that fill the gap best, again and again. Takes position 0 always, so no picture waits
    for ever; only one that is larger than `capacity` waits for the end, and is alone in its block.
    """
    taken, space = _take_in_order(sizes, capacity, max_count)
    rest = np.setdiff1d(np.arange(len(sizes)), taken, assume_unique=True)
    rest = rest[np.argsort(sizes[rest], kind="stable")]
    chosen = [taken]
    count = len(taken)
    while count < max_count and len(rest) and sizes[rest[0]] <= space:
        best = _best_finish(sizes[rest], space, min(2, max_count - count))
        chosen.append(rest[best])
        space -= int(sizes[rest[best]].sum())
        count += len(best)
        rest = np.delete(rest, best)
    return np.concatenate(chosen)


def _take_in_order(sizes: Index, capacity: int, max_count: int) -> tuple[Index, int]:
    """The random part of a block: what fits in order, less the last two, and the space that they leave."""
    parts: list[Index] = []
    space, at, count = capacity, 0, 0
    near_enough = 2 * int(sizes.mean())
    while at < len(sizes) and count < max_count:
        sums = np.cumsum(sizes[at : at + max_count - count])
        fits = int(np.searchsorted(sums, space, side="right"))
        if fits:
            parts.append(np.arange(at, at + fits))
            space -= int(sums[fits - 1])
            count += fits
        at += fits + 1
        if space <= near_enough:
            break
    if not parts:  # every picture is larger than a block
        return np.zeros(1, np.int64), 0
    taken = np.concatenate(parts)
    kept = taken[: max(1, len(taken) - 2)]
    return kept, space + int(sizes[taken[len(kept) :]].sum())


def _best_finish(ascending: Index, space: int, most: int) -> Index:
    """Positions of the one or two sizes whose sum comes nearest to `space` from below; ascending[0] fits."""
    single = int(np.searchsorted(ascending, space, side="right")) - 1
    best, best_sum = np.array([single]), int(ascending[single])
    if most < 2 or single == 0 or best_sum == space:
        return best
    first = np.arange(single + 1)
    second = np.searchsorted(ascending, space - ascending[first], side="right") - 1
    second = np.where(second > first, second, -1)
    sums = np.where(second >= 0, ascending[first] + ascending[second], 0)
    pair = int(np.argmax(sums))
    return np.array([pair, int(second[pair])]) if sums[pair] > best_sum else best


def mixed_arrangement(
    sizes: NDArray[np.int64] | Sequence[int], order: Index, capacity: int, max_count: int
) -> list[Index]:
    """Blocks of picture numbers, randomly mixed by class and size, filled to a few bytes.

    sizes: true bytes of all pictures. order: the pictures to arrange, in random order, each at most `capacity` bytes.
    max_count: pictures that a block header has room for. Costs about
    five sorts of the same list (benchmarks/arrange.py).
    """
    return list(_blocks_of_order(aligned_sizes(sizes), order, capacity, max_count))


def _blocks_of_order(aligned: Index, order: Index, capacity: int, max_count: int) -> Iterator[Index]:
    ends = np.cumsum(aligned[order])  # of the stream: what was added to the window so far ends at ends[at - 1]
    window = np.empty(0, np.int64)
    window_bytes, at, before = 0, 0, 0
    while at < len(order) or len(window):
        if window_bytes < WINDOW_BLOCKS * capacity and at < len(order):
            upto = 1 + int(np.searchsorted(ends, before + WINDOW_BLOCKS * capacity - window_bytes))
            upto = min(max(upto, at + 1), len(order))
            window = np.concatenate((window, order[at:upto]))
            window_bytes += int(ends[upto - 1]) - before
            at, before = upto, int(ends[upto - 1])
        chosen = fill_block(aligned[window], capacity, max_count)
        block = window[chosen]
        yield block
        window_bytes -= int(aligned[block].sum())
        window = np.delete(window, chosen)


# ---- reference -----------------------------------------------------------------------------------------------------


def reference_arrangement(
    sizes: NDArray[np.int64] | Sequence[int], capacity: int, min_blocks: int | None = None
) -> list[Index]:
    """Level 0: the genuine exporter's blocks of picture numbers, in its order.

    sizes: true bytes, each at most `capacity`. min_blocks: the blocks that the arrangement opens with (the genuine
    exporter uses 8,700 for the ImageNet training set and 400 for validation); None tries four numbers
    around the lower bound and takes the one that ends in the fewest blocks. Blocks that stay empty are left out.
    """
    aligned = aligned_sizes(sizes)
    if min_blocks is not None:
        return _Reference(aligned, capacity, min_blocks).arrange()
    least = lower_bound(sizes, capacity)
    best = _Reference(aligned, capacity, max(1, round(least * GENUINE_SHARE))).arrange()
    low = least  # never tried yet
    for _ in range(SEARCH_STEPS):
        if low >= len(best):
            break
        blocks = _Reference(aligned, capacity, low).arrange()
        best = min(best, blocks, key=len)
        low += max(1, (len(best) - low) // 2)
    return best


class _Reference:
    """The greedy arrangement (docs/spec/dts.md, section 5), vectorised where the steps allow it.

    blocks: picture numbers in the order of arrival. space: bytes left in each. rest: pictures not placed yet; the end
    of the list goes first. The exporter's ties between blocks compare their first pictures, which all differ.
    """

    def __init__(self, aligned: Index, capacity: int, min_blocks: int) -> None:
        self.sizes = aligned
        self.capacity = capacity
        self.rest: list[int] = np.argsort(aligned, kind="stable").tolist()
        firsts = self.rest[: -min_blocks - 1 : -1]
        del self.rest[len(self.rest) - len(firsts) :]
        self.blocks = [[picture] for picture in firsts]
        self.space = capacity - aligned[firsts]

    def arrange(self) -> list[Index]:
        random.Random(REFERENCE_SEED).shuffle(self.rest)
        self._fill_at_random()
        for _ in range(MARGIN_ROUNDS):
            if not self._fill_margins():
                break
        random.Random(REFERENCE_SEED).shuffle(self.rest)
        self._append_blocks()
        return [np.array(block, np.int64) for block in self.blocks]

    def _fill_at_random(self) -> None:
        """Each block takes from the end of the rest until one does not fit: a cut in the running sum of sizes."""
        stream = self.rest[::-1]
        sums = np.cumsum(self.sizes[stream])
        at, used = 0, 0
        for block, space in enumerate(self.space.tolist()):
            upto = int(np.searchsorted(sums, used + space, side="right"))
            if upto > at:
                self.blocks[block] += stream[at:upto]
                self.space[block] -= int(sums[upto - 1]) - used
                at, used = upto, int(sums[upto - 1])
        self.rest = stream[at:][::-1]

    def _fill_margins(self) -> bool:
        """One round: the smallest of the rest goes into the block with the least space that takes it, and so on.

        False where nothing went in: then the next rounds change nothing either.
        """
        order = np.lexsort(([block[0] for block in self.blocks], self.space))
        self.space = self.space[order]
        self.blocks = [self.blocks[n] for n in order]
        rest = self.rest
        rest.sort(key=self.sizes.__getitem__, reverse=True)
        before = len(rest)
        block = 0
        while rest and (fits := np.flatnonzero(self.space[block:] >= self.sizes[rest[-1]])).size:
            block += int(fits[0])
            self.space[block] -= self.sizes[rest[-1]]
            self.blocks[block].append(rest.pop())
            block += 1
        return len(rest) < before

    def _append_blocks(self) -> None:
        space = int(self.space[-1]) if self.blocks else 0
        for picture in reversed(self.rest):
            size = int(self.sizes[picture])
            if size > space:
                self.blocks.append([])
                space = self.capacity
            self.blocks[-1].append(picture)
            space -= size
