"""A network of one hidden layer in plain numpy, trained by Adam: enough to show that data can be learned from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class SmallModel:
    """One number from a row of features; `learn` takes one step and says by how much each answer was off before it."""

    def __init__(self, *, inputs: int, hidden: int, seed: int, rate: float = 0.02) -> None:
        rng = np.random.default_rng(seed)
        shapes = ((inputs, hidden), (hidden,), (hidden,), ())
        self._weights = [np.asarray(rng.normal(0, 1 / np.sqrt(inputs), shape)) for shape in shapes]
        self._mean = [np.zeros(shape) for shape in shapes]
        self._square = [np.zeros(shape) for shape in shapes]
        self._rate = rate
        self._steps = 0

    def learn(self, features: Floats, wanted: Floats) -> Floats:
        """One step of Adam (Kingma and Ba, 2015) on the mean squared error; features [B, inputs], wanted [B]."""
        first, first_bias, second, second_bias = self._weights
        hidden = np.tanh(features @ first + first_bias)
        off: Floats = hidden @ second + second_bias - wanted
        slope = 2 * off / len(off)
        back = np.outer(slope, second) * (1 - hidden**2)
        self._step([features.T @ back, back.sum(axis=0), hidden.T @ slope, np.asarray(slope.sum())])
        return off

    def _step(self, gradients: list[Floats]) -> None:
        self._steps += 1
        for n, gradient in enumerate(gradients):
            self._mean[n] = 0.9 * self._mean[n] + 0.1 * gradient
            self._square[n] = 0.999 * self._square[n] + 0.001 * gradient**2
            mean = self._mean[n] / (1 - 0.9**self._steps)
            square = self._square[n] / (1 - 0.999**self._steps)
            self._weights[n] = self._weights[n] - self._rate * mean / (np.sqrt(square) + 1e-8)
