"""Types of the C++ extension (cpp/bindings)."""

import numpy as np
from numpy.typing import NDArray

def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> list[int]: ...
def apply_pixel_op(
    pixels: NDArray[np.uint8], kind: str, index: int, parameters: list[float], seed: int, epoch: int, sample: int
) -> None: ...
def augment(
    pixels: NDArray[np.uint8],
    name: str,
    magnitude: float,
    bilinear: bool = False,
    fill: tuple[int, int, int] = (0, 0, 0),
) -> None: ...
def augmentation_magnitude(name: str, bin: int, bins: int, width: int, height: int) -> float: ...
def learned_policy(policy: int) -> list[list[tuple[str, float, int]]]: ...
