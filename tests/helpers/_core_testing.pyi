"""Types of the extension that tests and benchmarks use (cpp/testing)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainload._core import EntryPointStore, Pipeline, Scratch

def new_scratch(kernels: str) -> Scratch: ...
def size_bytes(entry_points: EntryPointStore) -> int: ...
def run_decode_only(
    pipeline: Pipeline,
    scratch: Scratch,
    arena: NDArray[np.uint8],
    offsets: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    ids: NDArray[np.uint64],
    seed: int,
    epoch: int,
    codes: NDArray[np.int32],
    entry_points: EntryPointStore | None = None,
    draws: NDArray[np.uint32] | None = None,
) -> None: ...
def decode_region(
    data: NDArray[np.uint8], x: int, y: int, width: int, height: int, denominator: int = 1, splices: bool = True
) -> NDArray[np.uint8]: ...
def resample(
    pixels: NDArray[np.uint8],
    box: Sequence[int],
    width: int,
    height: int,
    kernels: str = "",
    filter: str = "bilinear",
) -> NDArray[np.uint8]: ...
def kernel_names() -> list[str]: ...
def philox4x32(counter: Sequence[int], key: Sequence[int]) -> list[int]: ...
def apply_pixel_op(
    pixels: NDArray[np.uint8],
    kind: str,
    index: int,
    parameters: Sequence[float],
    seed: int,
    epoch: int,
    sample: int,
) -> None: ...
def augment(
    pixels: NDArray[np.uint8],
    name: str,
    magnitude: float,
    bilinear: bool = False,
    fill: Sequence[int] = (0, 0, 0),
) -> None: ...
def augmentation_magnitude(name: str, bin: int, bins: int, width: int, height: int) -> float: ...
def learned_policy(policy: int) -> list[list[tuple[str, float, int]]]: ...
