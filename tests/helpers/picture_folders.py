"""Class folders of small made pictures, and a reader of packed files that shares no code with the package's readers."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

BLOCK = 16 << 20


def picture(seed: int, size: tuple[int, int] = (64, 48), mode: str = "RGB") -> Image.Image:
    """A picture of blurred noise: random enough to have many sizes, smooth enough to be a photo."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (max(2, size[1] // 4), max(2, size[0] // 4), 3), np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).convert(mode)


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def class_folders(root: Path, classes: int = 3, each: int = 4, size: tuple[int, int] = (64, 48)) -> Path:
    """`classes` folders of `each` JPEGs below `root`."""
    for label in range(classes):
        folder = root / f"class{label}"
        folder.mkdir(parents=True)
        for n in range(each):
            seed = label * each + n
            shape = (size[0] + 16 * (seed % 3), size[1])
            (folder / f"c{label}_{n}.JPEG").write_bytes(encoded(picture(seed, shape)))
    return root


@dataclass
class Packed:
    """A packed file by the letter of docs/spec/dts.md: header fields by offset, samples in order."""

    data: bytes
    samples: list[bytes]
    labels: list[int]
    blocks: list[int]

    def u32(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self.data, offset)[0])


def read_packed(path: Path) -> Packed:
    data = path.read_bytes()
    packed = Packed(data, [], [], [])
    for k in range(struct.unpack_from("<I", data, 68)[0]):
        at = (k + 1) * BLOCK
        magic, block_id, count = struct.unpack_from("<4sII", data, at)
        assert (magic, block_id) == (b"LV%dB" % packed.u32(20), k)
        rows = np.frombuffer(data, "<u4", 3 * count, at + 12).reshape(3, count).tolist()
        packed.samples += [data[at + offset : at + offset + size] for offset, size in zip(rows[0], rows[1])]
        packed.labels += rows[2]
        packed.blocks.append(count)
    return packed


def some_of(folder: Path, step: int, start: int = 0) -> list[Path]:
    """Each `step`th picture of class folders, from number `start`; of a few pictures all."""
    files = sorted(folder.glob("*/*"))
    return files[start::step] if len(files) > step else files
