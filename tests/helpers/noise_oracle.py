"""The normal numbers of GaussianNoise in numpy: by the exact formula, and in single precision as cpp/core/noise.h."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops_plan import Noise
from trainload.running.philox import philox4x32

F = np.float32
LOGARITHM = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def uniform_words(key: tuple[int, int], height: int, width: int) -> NDArray[np.int32]:
    """The upper 24 bits of every block's words: int32[height, 4, blocks of a row]."""
    blocks = -(-3 * width // 4)
    counters = np.zeros((height * blocks, 4), np.uint64)
    counters[:, 0] = np.arange(len(counters))
    words = philox4x32(counters, np.array(key, np.uint64)) >> 8
    return words.reshape(height, blocks, 4).transpose(0, 2, 1).astype(np.int32)


def _in_rows(radius: NDArray[Any], cosine: NDArray[Any], sine: NDArray[Any], width: int) -> NDArray[Any]:
    """From [height, pair, blocks] to the numbers of the pixels, [height, width, 3]."""
    numbers = np.stack([radius * cosine, radius * sine], axis=2)  # [height, pair, cosine or sine, blocks]
    height = len(numbers)
    return numbers.reshape(height, -1)[:, : 3 * width].reshape(height, width, 3)


def exact_normals(key: tuple[int, int], height: int, width: int) -> NDArray[np.float64]:
    """Box and Muller's formula in double precision."""
    words = uniform_words(key, height, width) * 2.0**-24
    radius, angle = np.sqrt(-2.0 * np.log(1.0 - words[:, 0::2])), 2.0 * np.pi * words[:, 1::2]
    return _in_rows(radius, np.cos(angle), np.sin(angle), width)


def _polynomial(coefficients: tuple[float, ...], x: NDArray[np.float32]) -> NDArray[np.float32]:
    total = np.full_like(x, F(coefficients[0]))
    for coefficient in coefficients[1:]:
        total = total * x + F(coefficient)
    return total


def normals(key: tuple[int, int], height: int, width: int) -> NDArray[np.float32]:
    """The same in single precision, in the core's order of operations: float32[height, width, 3]."""
    words = uniform_words(key, height, width)
    number = F(1.0) - words[:, 0::2].astype(F) * F(2.0**-24)
    bits = number.view(np.int32)
    exponent = (bits - np.int32(0x3F3504F3)) >> 23
    x = (bits - (exponent << 23)).view(F) - F(1.0)
    e, square = exponent.astype(F), x * x
    small = _polynomial(LOGARITHM, x) * x * square + e * F(-2.12194440e-4) - F(0.5) * square
    radius = np.sqrt(F(-2.0) * (x + small + e * F(0.693359375)))
    place = words[:, 1::2]
    quarter = (place + (1 << 21)) >> 22
    x = (place - (quarter << 22)).astype(F) * F(3.7450702829e-7)
    square = x * x
    sine = _polynomial(SINE, square) * square * x + x
    cosine = _polynomial(COSINE, square) * square * square - F(0.5) * square + F(1.0)
    odd = quarter % 2 == 1
    to_cosine, to_sine = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    to_cosine = np.where((quarter + 1) & 2, -to_cosine, to_cosine)
    return _in_rows(radius, to_cosine, np.where(quarter & 2, -to_sine, to_sine), width)


def add_noise(step: Noise, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The step carried out on uint8[height, width, 3]."""
    numbers = normals(step.key, *pixels.shape[:2])
    values = pixels.astype(F) + (F(255.0 * step.mean) + F(255.0 * step.sigma) * numbers)
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)
