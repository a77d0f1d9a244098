"""Random permutations (docs/order.md, section 2), and the streams of random words that orders draw from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Streams of philox.random_bits.
SAMPLE_STREAM, BLOCK_STREAM, WEIGHT_STREAM, LANE_STREAM = 0, 1, 2, 3


def permutation(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The positions 0 .. n-1, sorted by random keys; equal keys keep their order. 20 ns per position.

    The position replaces the lowest bits of its key: all keys differ, so any sorting algorithm gives the same order.
    """
    index_bits = np.uint64(max(len(keys) - 1, 1).bit_length())
    index_mask = (np.uint64(1) << index_bits) - np.uint64(1)
    keyed = (keys & ~index_mask) | np.arange(len(keys), dtype=np.uint64)
    keyed.sort()
    return (keyed & index_mask).astype(np.int64)
