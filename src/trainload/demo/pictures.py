"""A small set of photo-like pictures: class folders of JPEGs, the same bytes for the same seed and Pillow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CLASSES = ("disc", "ring", "square", "stripe", "checker", "wedge", "blob", "cross")
SIZES = ((500, 375), (375, 500), (500, 333), (640, 480))


def make_pictures(folder: Path, *, per_class: int = 60, seed: int = 0) -> int:
    """Write `per_class` JPEGs (about 100 KB each) into one folder per class; returns how many pictures there are."""
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for n in range(per_class):
            rng = np.random.default_rng([seed, label, n])
            picture = Image.fromarray(_picture(label, rng))
            picture.save(folder / name / f"{name}_{n:04d}.jpeg", quality=92)
    return len(CLASSES) * per_class


def _picture(label: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    width, height = SIZES[int(rng.integers(len(SIZES)))]
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    cx, cy = rng.uniform(0.3, 0.7) * width, rng.uniform(0.3, 0.7) * height
    size = rng.uniform(0.15, 0.3) * min(width, height)
    mask = _shape(label, (x - cx) / size, (y - cy) / size)
    ground, figure = rng.uniform(0.15, 0.85, 3), rng.uniform(0.1, 0.9, 3)
    clouds = _clouds(height, width, rng)
    grain = rng.normal(0, 0.03, (height, width, 1))
    pixels = np.where(mask[..., None], figure, ground) * (0.55 + 0.9 * clouds[..., None]) + grain
    return np.asarray(np.clip(pixels, 0, 1) * 255, np.uint8)


def _shape(label: int, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.bool_]:
    radius = np.hypot(x, y)
    shapes = (
        radius < 1,
        (radius > 0.6) & (radius < 1.1),
        np.maximum(np.abs(x), np.abs(y)) < 1,
        (np.abs(y) < 1.2) & (np.floor(x * 2) % 2 == 0),
        (radius < 1.6) & ((np.floor(x * 2) + np.floor(y * 2)) % 2 == 0),
        (np.abs(x) < y + 1) & (y < 1),
        radius < 0.9 + 0.25 * np.sin(5 * np.arctan2(y, x)),
        (radius < 1.4) & (np.minimum(np.abs(x), np.abs(y)) < 0.3),
    )
    return np.asarray(shapes[label], dtype=np.bool_)


def _clouds(height: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Value noise of several octaves in [0, 1]: the 1/f spectrum that makes JPEG sizes like those of photos."""
    total = np.zeros((height, width), np.float32)
    for octave in range(1, 8):
        cells = 2**octave
        grid = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
        total += np.asarray(grid.resize((width, height), Image.Resampling.BICUBIC)) / cells**0.8
    low, high = float(total.min()), float(total.max())
    return (total - low) / (high - low)
