"""Types of the C++ extension (cpp/bindings)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

class GeometryError(ValueError): ...

class Scratch:
    def __init__(self) -> None: ...
    @property
    def messages(self) -> list[tuple[int, str]]: ...
    @property
    def needs(self) -> list[tuple[int, int]]: ...

class EntryPointStore:
    def __init__(self, budget_bytes: int) -> None: ...

class JpegSegments:
    def __init__(self, data: Buffer, most_stray: int = 0) -> None: ...
    def __iter__(self) -> JpegSegments: ...
    def __next__(self) -> tuple[int, int, int]: ...

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
        most_pixels: int = 9223372036854775807,
        most_bytes: int = 18446744073709551615,
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
def give_back_freed_memory() -> None: ...
def count_up(counts: NDArray[np.uint32], places: NDArray[np.int64], before: NDArray[np.uint32]) -> None: ...
def shuffle(data: Buffer, planes: Buffer, element_size: int) -> None: ...
def unshuffle(planes: Buffer, data: Buffer, element_size: int) -> None: ...
