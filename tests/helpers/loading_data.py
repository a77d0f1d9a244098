"""Small image sets for the loader's tests: real JPEGs in DTS files of several blocks, in class folders; their reads."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray
from PIL import Image

import trainload as tl
from trainload.codecs.compression import zstd_compress
from trainload.images.format import dts
from trainload.images.format.block import BlockHeader
from trainload.images.loading.image_loader import ImageLoader
from trainload.images.loading.picture_sets import DtsPictures

if TYPE_CHECKING:
    from typing_extensions import Buffer


def jpegs(count: int, *, width: int = 48, height: int = 40) -> list[bytes]:
    """Pictures that all differ: a smooth pattern with its own phase and brightness."""
    y, x = np.mgrid[0:height, 0:width]
    found = []
    for n in range(count):
        waves = np.stack([np.sin((x + n) / 7), np.cos((y - 2 * n) / 5), np.sin((x + y) / 9 + n)], axis=-1)
        pixels = np.clip(100 + n % 50 + 60 * waves, 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=85)
        found.append(file.getvalue())
    return found


def claimed_area(pictures: Iterable[bytes]) -> int:
    """Pixels of the largest picture, as the headers say; bytes that are no picture count as one."""
    largest = 1
    for encoded in pictures:
        with contextlib.suppress(OSError, Image.DecompressionBombError), Image.open(io.BytesIO(encoded)) as picture:
            largest = max(largest, picture.width * picture.height)
    return largest


def write_dts(
    path: Path,
    pictures: list[bytes],
    labels: list[int],
    per_block: int | Sequence[int],
    *,
    crcs: bool = True,
    picture_crcs: bool = False,
    training: bool = True,
) -> Path:
    """A DTS file with `per_block` pictures in each 16 MB block, or as many as it says for each (the rest of a block is
    a hole in the file).

    crcs: of the blocks. picture_crcs: of each picture, and its source path.
    """
    classes = max(labels) + 1
    counts = [per_block] * -(-len(pictures) // per_block) if isinstance(per_block, int) else per_block
    ends = np.minimum(np.cumsum(counts), len(pictures)).tolist()
    blocks = [range(first, end) for first, end in pairwise([0, *ends])]
    sums = []
    with path.open("wb") as file:
        for k, members in enumerate(blocks):
            sizes = [len(pictures[n]) for n in members]
            offsets = 4096 + np.concatenate([[0], np.cumsum([dts.align(size) for size in sizes])])[:-1]
            arrays = (np.asarray(a, np.uint32) for a in (offsets, sizes, [labels[n] for n in members]))
            block = bytearray(BlockHeader(0, k, *arrays).to_bytes(4096))
            for n, offset in zip(members, offsets):
                block += bytes(int(offset) - len(block)) + pictures[n]
            file.seek(dts.IMAGE_HEADER_BYTES + k * dts.BLOCK_SIZE)
            file.write(block)
            sums.append(isal_zlib.crc32(bytes(dts.BLOCK_SIZE - len(block)), isal_zlib.crc32(block)))
        file.truncate(dts.IMAGE_HEADER_BYTES + len(blocks) * dts.BLOCK_SIZE)
        file.seek(0)
        table = np.array([[len(m) for m in blocks], sums], "<u4").T.tobytes()
        header = _header(len(pictures), len(blocks), classes, training, claimed_area(pictures))
        sections = [(dts.TAG_BLOCKS, table)] if crcs else []
        if picture_crcs:
            names = [f"{label}/{n}.JPEG" for n, label in enumerate(labels)]
            each = np.array([isal_zlib.crc32(picture) for picture in pictures], "<u4").tobytes()
            sections += [(dts.TAG_PATHS, zstd_compress(dts.names_to_bytes(names))), (dts.TAG_PICTURES, each)]
        file.write(dts.header_region_to_bytes(header, sections))
    return path


def _header(samples: int, blocks: int, classes: int, training: bool, area: int) -> dts.DtsHeader:
    return dts.DtsHeader(
        dataset_type=dts.IMAGENET,
        is_training=training,
        compress_level=0,
        val_set_prep=0,
        num_classes=classes,
        image_width=0,
        image_height=0,
        num_channels=3,
        color_type="RGB",
        num_samples=samples,
        num_volumes=1,
        volume_id=0,
        total_blocks=blocks,
        num_blocks=blocks,
        total_bytes=dts.IMAGE_HEADER_BYTES + blocks * dts.BLOCK_SIZE,
        header_bytes=dts.IMAGE_HEADER_BYTES,
        block_bytes=blocks * dts.BLOCK_SIZE,
        block_size=dts.BLOCK_SIZE,
        block_header_size=4096,
        pic_alignment=dts.PICTURE_ALIGNMENT,
        max_pic_area=area,
        max_pic_per_block=1,
        compression_ratio=1.0,
        crc_code=0,
    )


def write_array(path: Path, kind: str, pixels: NDArray[np.uint8], labels: NDArray[np.integer]) -> Path:
    """An MNIST or CIFAR file of these pictures."""
    count, height, width, channels = pixels.shape
    data = labels.astype(np.uint8).tobytes() + pixels.tobytes()
    header = dts.DtsHeader(
        dataset_type=kind,
        is_training=True,
        compress_level=0,
        val_set_prep=0,
        num_classes=10,
        image_width=width,
        image_height=height,
        num_channels=channels,
        color_type="RGB" if channels == 3 else "GRAY",
        num_samples=count,
        num_volumes=1,
        volume_id=0,
        total_blocks=1,
        num_blocks=1,
        total_bytes=256 + count + pixels.size,
        header_bytes=256,
        block_bytes=count + pixels.size,
        block_size=count + pixels.size,
        block_header_size=0,
        pic_alignment=0,
        max_pic_area=width * height,
        max_pic_per_block=count,
        compression_ratio=1.0,
        crc_code=isal_zlib.crc32(data),
    )
    path.write_bytes(header.to_bytes().ljust(256, b"\0") + data)
    return path


def write_folder(folder: Path, pictures: list[bytes], labels: list[int]) -> Path:
    """Class folders that `trainload.open` reads in the order of `pictures`, where the labels ascend."""
    for n, (data, label) in enumerate(zip(pictures, labels)):
        where = folder / f"class{label:03}"
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{n:05}.JPEG").write_bytes(data)
    return folder


class CountingSet(DtsPictures):
    """A set that writes down its reads."""

    log: list[tuple[int, int, int]]

    def read(self, unit: int, start: int, buffer: Buffer) -> None:
        self.log.append((unit, start, memoryview(buffer).nbytes))
        super().read(unit, start, buffer)

    def clone(self) -> CountingSet:
        copy = CountingSet(self._reader.clone(), self.places)
        copy.log = self.log
        return copy


def counted(loader: ImageLoader) -> list[tuple[int, int, int]]:
    """Let a loader write down its reads."""
    assert isinstance(loader.dataset, tl.DtsReader)
    pictures = CountingSet(loader.dataset)
    pictures.log = []
    loader._set = loader._set._replace(pictures=pictures)
    return pictures.log
