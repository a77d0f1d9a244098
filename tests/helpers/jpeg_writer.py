"""A baseline JPEG encoder for tests: any sampling factors, any restart interval, made-up pixels (ITU-T T.81).

Pillow writes 4:4:4, 4:2:2 and 4:2:0 only; the region decode is to be exact for every sampling.
"""

from __future__ import annotations

import struct
from itertools import product

import numpy as np
from numpy.typing import NDArray

SAMPLINGS: dict[str, list[tuple[int, int]]] = {
    "4:4:4": [(1, 1), (1, 1), (1, 1)],
    "4:2:2": [(2, 1), (1, 1), (1, 1)],
    "4:4:0": [(1, 2), (1, 1), (1, 1)],
    "4:2:0": [(2, 2), (1, 1), (1, 1)],
    "4:1:1": [(4, 1), (1, 1), (1, 1)],
    "4:1:0": [(4, 2), (1, 1), (1, 1)],
    "gray": [(1, 1)],
}

_DC_COUNTS = bytes([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0])  # table K.3
_DC_SYMBOLS = bytes(range(12))
# An AC table with every (run, size): two bits for the end of a block, eight for everything else.
_AC_SYMBOLS = bytes([0x00, 0xF0, *(run << 4 | size for size in range(1, 11) for run in range(16))])
_AC_COUNTS = bytes([0, 1, 0, 0, 0, 0, 0, 161, *[0] * 8])

_COSINES = np.array([[np.cos((2 * x + 1) * u * np.pi / 16) for x in range(8)] for u in range(8)])
_DCT = _COSINES * np.where(np.arange(8) == 0, np.sqrt(1 / 8), 0.5)[:, None]
_ZIGZAG = sorted(range(64), key=lambda i: (s := i // 8 + i % 8, i % 8 if s % 2 == 0 else i // 8))


def _codes(counts: bytes, symbols: bytes) -> dict[int, str]:
    """The canonical Huffman code of every symbol, as text of 0 and 1 (annex C)."""
    codes, code, k = {}, 0, 0
    for length, count in enumerate(counts, start=1):
        for _ in range(count):
            codes[symbols[k]] = format(code, f"0{length}b")
            code, k = code + 1, k + 1
        code <<= 1
    return codes


_DC, _AC = _codes(_DC_COUNTS, _DC_SYMBOLS), _codes(_AC_COUNTS, _AC_SYMBOLS)


def make_jpeg(width: int, height: int, sampling: str, *, restart_interval: int = 0, seed: int = 0) -> bytes:
    """A picture with edges, slopes and noise. restart_interval: MCUs between markers, 0: no markers."""
    factors = SAMPLINGS[sampling]
    across, down = max(h for h, _ in factors), max(v for _, v in factors)
    columns, rows = -(-width // (8 * across)), -(-height // (8 * down))
    rng = np.random.default_rng(seed)
    blocks = [_coefficients(rng, columns * h, rows * v) for h, v in factors]
    head = b"\xff\xd8" + _segment(0xDB, bytes([0, *[6] * 64]))
    frame = b"".join(bytes([i + 1, h << 4 | v, 0]) for i, (h, v) in enumerate(factors))
    head += _segment(0xC0, struct.pack(">BHHB", 8, height, width, len(factors)) + frame)
    head += _segment(0xC4, b"\x00" + _DC_COUNTS + _DC_SYMBOLS + b"\x10" + _AC_COUNTS + _AC_SYMBOLS)
    if restart_interval:
        head += _segment(0xDD, struct.pack(">H", restart_interval))
    scan = b"".join(bytes([i + 1, 0]) for i in range(len(factors)))
    head += _segment(0xDA, bytes([len(factors)]) + scan + b"\x00\x3f\x00")
    return head + _entropy_coded(blocks, factors, columns, rows, restart_interval) + b"\xff\xd9"


def _segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def _coefficients(rng: np.random.Generator, columns: int, rows: int) -> NDArray[np.int64]:
    """Quantised blocks of one component, [rows, columns, 64] in zigzag order."""
    y, x = np.mgrid[0 : rows * 8, 0 : columns * 8]
    plane = 90 * np.sin(x / rng.uniform(3, 20) + y / rng.uniform(3, 20)) + 60 * ((x // 5 + y // 7) % 2)
    plane = np.clip(plane + rng.normal(0, 12, plane.shape), -128, 127)
    tiles = plane.reshape(rows, 8, columns, 8).swapaxes(1, 2)
    return np.rint(_DCT @ tiles @ _DCT.T / 6).astype(np.int64).reshape(rows, columns, 64)[..., _ZIGZAG]


def _entropy_coded(
    blocks: list[NDArray[np.int64]], factors: list[tuple[int, int]], columns: int, rows: int, interval: int
) -> bytes:
    segments: list[bytes] = []
    bits: list[str] = []
    previous = [0] * len(blocks)
    for mcu, (row, column) in enumerate(product(range(rows), range(columns))):
        if interval and mcu and mcu % interval == 0:
            segments.append(_to_bytes(bits))
            bits, previous = [], [0] * len(blocks)
        for i, (h, v) in enumerate(factors):
            for y, x in product(range(v), range(h)):
                block = blocks[i][row * v + y, column * h + x].tolist()
                bits.append(_block_bits(block, previous[i]))
                previous[i] = block[0]
    segments.append(_to_bytes(bits))
    marked = [segment + bytes([0xFF, 0xD0 + i % 8]) for i, segment in enumerate(segments[:-1])]
    return b"".join(marked) + segments[-1]


def _block_bits(block: list[int], previous: int) -> str:
    size, extra = _magnitude(block[0] - previous)
    bits, run = _DC[size] + extra, 0
    for value in block[1:]:
        if value == 0:
            run += 1
            continue
        size, extra = _magnitude(value)
        bits += _AC[0xF0] * (run // 16) + _AC[run % 16 << 4 | size] + extra
        run = 0
    return bits + (_AC[0x00] if run else "")


def _magnitude(value: int) -> tuple[int, str]:
    size = abs(value).bit_length()
    return size, format(value if value > 0 else value + (1 << size) - 1, f"0{size}b") if size else ""


def _to_bytes(bits: list[str]) -> bytes:
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\x00") if text else b""
