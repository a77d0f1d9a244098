"""Philox 4x32-10 in numpy: the random numbers of every augmentation and of every order, as pure functions.

Source: Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC11), and its library Random123.
The numbering is that of cpp/core/philox.h, which is the copy that runs per picture; this one is its oracle and gives
the loader its permutation keys.

Who may use which counters (word 3 of the counter starts with a 16-bit operation number):
    operations 0 .. 0xFEFF       the position of an operation in the user's list; words 0, 1 are the sample id, with the
                                 draw number of a sample that an epoch repeats XORed into word 1
    operations 0xFF00 .. 0xFFFF  streams 0 .. 255 of `random_bits`; words 0, 1 are the position in the stream
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trainload.errors import UsageError

OPERATION_LIMIT = 0xFF00  # operations below, streams of random_bits from here on
Words = NDArray[np.uint64] | np.uint64  # 32-bit words, each in a 64-bit one
_CHUNK = 8192  # counters at a time: the ten rounds stay in the cache
_LOW_WORD = np.uint64(0xFFFFFFFF)
_WORD_BITS = np.uint64(32)


def philox4x32(counters: ArrayLike, keys: ArrayLike) -> NDArray[np.uint32]:
    """Blocks of random words: counters uint32[..., 4], keys uint32[..., 2] (broadcast) -> uint32[..., 4]."""
    counter = np.asarray(counters, dtype=np.uint64)
    key = np.asarray(keys, dtype=np.uint64)
    c0, c1, c2, c3 = np.moveaxis(counter, -1, 0)
    words = _rounds(c0, c1, c2, c3, key[..., 0], key[..., 1])
    return np.stack(np.broadcast_arrays(*words), axis=-1).astype(np.uint32)


def _rounds(c0: Words, c1: Words, c2: Words, c3: Words, k0: Words, k1: Words) -> tuple[Words, Words, Words, Words]:
    """The ten rounds on 32-bit words that lie in 64-bit ones."""
    for _ in range(10):
        low = np.uint64(0xD2511F53) * c0
        high = np.uint64(0xCD9E8D57) * c2
        c0 = (high >> _WORD_BITS) ^ c1 ^ k0
        c1 = high & _LOW_WORD
        c2 = (low >> _WORD_BITS) ^ c3 ^ k1
        c3 = low & _LOW_WORD
        k0 = (k0 + np.uint64(0x9E3779B9)) & _LOW_WORD
        k1 = (k1 + np.uint64(0xBB67AE85)) & _LOW_WORD
    return c0, c1, c2, c3


def sample_bits(
    seed: int, epoch: int, samples: ArrayLike, operation: int, count: int, *, draws: ArrayLike = 0
) -> NDArray[np.uint32]:
    """The first `count` numbers of one operation for many samples, each at its draw: uint32[len(samples), count]."""
    _check(seed, epoch)
    ids = np.asarray(samples, dtype=np.uint64)
    blocks = (count + 3) // 4
    counters = np.empty((len(ids), blocks, 4), dtype=np.uint64)
    counters[..., 0] = (ids & _LOW_WORD)[:, None]
    counters[..., 1] = np.broadcast_to((ids >> _WORD_BITS) ^ np.asarray(draws, np.uint64), ids.shape)[:, None]
    counters[..., 2] = epoch
    counters[..., 3] = np.uint64(operation << 16) + np.arange(blocks, dtype=np.uint64)
    return philox4x32(counters, _key(seed)).reshape(len(ids), blocks * 4)[:, :count]


def random_bits(seed: int, epoch: int, stream: int, count: int) -> NDArray[np.uint64]:
    """`count` independent 64-bit words of a named stream (0 .. 255): keys for permutations, uint64[count].

    Word i depends on (seed, epoch, stream, i) alone, so a longer request begins with a shorter one. 10 ns per word.
    """
    _check(seed, epoch)
    if not 0 <= stream <= 0xFFFF - OPERATION_LIMIT:
        raise UsageError(f"stream {stream} is not in 0 .. {0xFFFF - OPERATION_LIMIT}")
    bits = np.empty((count + 1) // 2 * 2, dtype=np.uint64)
    pairs = bits.reshape(-1, 2)
    key = _key(seed)
    operation = np.uint64((OPERATION_LIMIT + stream) << 16)
    for start in range(0, len(pairs), _CHUNK):
        chunk = pairs[start : start + _CHUNK]
        blocks = np.arange(start, start + len(chunk), dtype=np.uint64)
        w0, w1, w2, w3 = _rounds(blocks & _LOW_WORD, blocks >> _WORD_BITS, np.uint64(epoch), operation, key[0], key[1])
        chunk[:, 0] = w0 | (w1 << _WORD_BITS)
        chunk[:, 1] = w2 | (w3 << _WORD_BITS)
    return bits[:count]


class Draws:
    """The numbers one operation may draw for one sample of one epoch; equal to `Draws` of cpp/core/philox.h.

    Number n comes from the counter (sample low, sample high ^ draw, epoch, operation << 16 | n / 4), word n % 4.
    draw: how often the epoch has had the sample before.
    """

    def __init__(self, seed: int, epoch: int, sample: int, operation: int, draw: int = 0) -> None:
        _check(seed, epoch)
        self._key = _key(seed)
        self._counter = [sample & 0xFFFFFFFF, sample >> 32 ^ draw, epoch, operation << 16]
        self._words: list[int] = []

    def bits(self) -> int:
        """The next 32 random bits."""
        if not self._words:
            self._words = [int(word) for word in philox4x32(self._counter, self._key)]
            self._counter[3] += 1
        return self._words.pop(0)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Uniform in [low, high): the upper 24 bits, exact in a float and in a double."""
        return low + (high - low) * ((self.bits() >> 8) * 2.0**-24)

    def below(self, count: int) -> int:
        """Uniform integer in [0, count), count > 0: multiply-shift (bias below count / 2^32)."""
        return (self.bits() * count) >> 32


def _key(seed: int) -> NDArray[np.uint64]:
    return np.array([seed & 0xFFFFFFFF, seed >> 32], dtype=np.uint64)


def _check(seed: int, epoch: int) -> None:
    if not 0 <= seed < 1 << 64:
        raise UsageError(f"seed {seed} is not in 0 .. 2^64 - 1")
    if not 0 <= epoch < 1 << 32:
        raise UsageError(f"epoch {epoch} is not in 0 .. 2^32 - 1")
