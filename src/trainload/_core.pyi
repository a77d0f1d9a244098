"""Types of the C++ extension (cpp/bindings)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

class GeometryError(ValueError): ...

class Scratch:
    def __init__(self, kernels: str = "") -> None: ...
    @property
    def messages(self) -> list[tuple[int, str]]: ...
    @property
    def needs(self) -> list[tuple[int, int]]: ...

class EntryPointStore:
    def __init__(self, budget_bytes: int) -> None: ...
    @property
    def size_bytes(self) -> int: ...

class Pipeline:
    def __init__(
        self,
        ops: Sequence[tuple[str, int, Sequence[float]]],
        width: int,
        height: int,
        out: str,
        layout: str,
        mean: Sequence[float],
        std: Sequence[float],
        dct_scale: str,
        most_pixels: int = ...,
        most_bytes: int = ...,
    ) -> None: ...
    def run(
        self,
        scratch: Scratch,
        arena: NDArray[np.uint8],
        offsets: NDArray[np.uint64],
        sizes: NDArray[np.uint64],
        ids: NDArray[np.uint64],
        seed: int,
        epoch: int,
        out: NDArray[Any],
        codes: NDArray[np.int32],
        entry_points: EntryPointStore | None = None,
        draws: NDArray[np.uint32] | None = None,
    ) -> None: ...
    def run_decode_only(
        self,
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
    def run_pixels(
        self,
        scratch: Scratch,
        pixels: NDArray[np.uint8],
        rows: NDArray[np.uint64],
        ids: NDArray[np.uint64],
        seed: int,
        epoch: int,
        out: NDArray[Any],
        draws: NDArray[np.uint32] | None = None,
    ) -> None: ...

def decode_jpeg(data: NDArray[np.uint8]) -> NDArray[np.uint8]: ...
def decode_region(
    data: NDArray[np.uint8], x: int, y: int, width: int, height: int, denominator: int = 1, splices: bool = True
) -> NDArray[np.uint8]: ...
def resample(
    pixels: NDArray[np.uint8], box: Sequence[int], width: int, height: int, kernels: str = ""
) -> NDArray[np.uint8]: ...
def give_back_freed_memory() -> None: ...
def kernel_names() -> list[str]: ...
def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> list[int]: ...
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
    fill: tuple[int, int, int] = (0, 0, 0),
) -> None: ...
def augmentation_magnitude(name: str, bin: int, bins: int, width: int, height: int) -> float: ...
def count_up(counts: NDArray[np.uint32], places: NDArray[np.int64], before: NDArray[np.uint32]) -> None: ...
def shuffle(data: Buffer, planes: Buffer, element_size: int) -> None: ...
def unshuffle(planes: Buffer, data: Buffer, element_size: int) -> None: ...
def learned_policy(policy: int) -> list[list[tuple[str, float, int]]]: ...
