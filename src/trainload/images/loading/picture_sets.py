"""What the loader asks of a set of encoded pictures: where each one lies, and reads. One adapter per kind of reader.

A unit is what is read in one piece when all of it is wanted: a 16 MB block of a DTS set, a file of a folder.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainload.errors import FormatError, SampleError, UsageError
from trainload.images.classes.folder_rules import is_held_out_split
from trainload.images.reading.arrays import ArrayReader
from trainload.images.reading.class_folders import FolderReader
from trainload.images.reading.dts import DtsReader
from trainload.images.reading.open import ImageReader, open_images
from trainload.storage.file import FileSource, is_of_one_file
from trainload.storage.location import Url, is_url
from trainload.storage.traffic import Traffic

if TYPE_CHECKING:
    from typing_extensions import Buffer

USUAL_PIXELS = 16 << 20  # of the largest picture in a folder, which does not say
PROBED_FILES = 64


class Places(NamedTuple):
    """Where every sample lies.

    unit, start, size: int64 [n], the sample's unit, its first byte in there, its bytes. unit_sizes, unit_counts: int64
    [units], the bytes and the samples of each unit.
    """

    unit: NDArray[np.int64]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    unit_sizes: NDArray[np.int64]
    unit_counts: NDArray[np.int64]


class Origin(NamedTuple):
    """What an error says about one sample: its block (None in a folder), its source, the file it was read from."""

    block: int | None
    source: str
    path: str


class PictureSet(Protocol):
    """Encoded pictures that can be read by unit."""

    labels: NDArray[np.int32]
    places: Places
    has_blocks: bool
    has_sums: bool  # of each picture
    is_remote: bool
    is_cached: bool

    def read(self, unit: int, start: int, buffer: Buffer) -> None:
        """Fill `buffer` with the bytes of `unit` from `start` on: exactly that many, or an error.

        Raises SampleError where a unit is one picture's file and that file is gone, cannot be read, or changed.
        """

    def check_unit(self, unit: int, data: Buffer) -> None:
        """Raise FormatError where the checksum of a whole unit is known and is not that of `data`."""

    def check_sample(self, sample: int, data: Buffer) -> None:
        """Raise FormatError where the checksum of one picture is known and is not that of `data`."""

    def origin(self, sample: int) -> Origin:
        """Where `sample` comes from, for an error."""

    def largest_pixels(self) -> int:
        """Pixels of the largest picture: what the set says, else of those that take the most bytes."""

    def identity(self) -> Hashable:
        """Equal for sets whose bytes are known to be the same."""

    def take_traffic(self) -> Traffic | None:
        """What these handles read over a network since they were last asked."""

    def clone(self) -> PictureSet:
        """The same set with file handles of its own."""

    def close(self) -> None:
        """Let go of the handles."""


class DtsPictures:
    """A DTS set: units are blocks."""

    has_blocks = True

    def __init__(self, reader: DtsReader, places: Places | None = None) -> None:
        self._reader = reader
        self.labels = reader.labels
        self.has_sums = reader.picture_crcs is not None
        self.is_remote = is_url(reader.path)
        self.is_cached = isinstance(reader.path, Url) and bool(reader.path.access.cache)
        self.places = places or Places(
            unit=reader.block_of.astype(np.int64),
            start=reader.offset_in_block.astype(np.int64),
            size=reader.sizes,
            unit_sizes=np.full(reader.num_blocks, reader.block_size, np.int64),
            unit_counts=np.diff(reader.block_first),
        )

    def read(self, unit: int, start: int, buffer: Buffer) -> None:
        self._reader.readinto_part(unit, start, buffer)

    def check_unit(self, unit: int, data: Buffer) -> None:
        self._reader.check_block(unit, data)

    def check_sample(self, sample: int, data: Buffer) -> None:
        self._reader.check_picture(sample, data)

    def origin(self, sample: int) -> Origin:
        block = int(self.places.unit[sample])
        return Origin(block, self._reader.source(sample), self._reader.path_of_block(block))

    def largest_pixels(self) -> int:
        return max(header.max_pic_area for header in self._reader.headers)

    def identity(self) -> Hashable:
        return self._reader.identity()

    def take_traffic(self) -> Traffic | None:
        return self._reader.take_traffic() if self.is_remote else None

    def clone(self) -> DtsPictures:
        return DtsPictures(self._reader.clone(), self.places)

    def close(self) -> None:
        self._reader.close()


class FolderPictures:
    """A folder of picture files: units are files, opened one at a time."""

    has_blocks = False
    has_sums = False
    is_remote = is_cached = False

    def __init__(self, reader: FolderReader) -> None:
        self._reader = reader
        self._paths = reader.paths
        self.labels = reader.labels
        count = len(reader)
        sizes = np.asarray(reader.sizes, np.int64)
        self.places = Places(np.arange(count), np.zeros(count, np.int64), sizes, sizes, np.ones(count, np.int64))

    def read(self, unit: int, start: int, buffer: Buffer) -> None:
        path = os.fspath(self._paths[unit])
        expected = int(self.places.size[unit])
        try:
            with FileSource(path) as source:
                if source.size != expected:
                    raise SampleError(
                        f"the file must keep its size while it is in use: {source.size:,} bytes, were {expected:,}",
                        sample=unit,
                        path=path,
                    )
                source.readinto_at(start, buffer)
        except OSError as error:
            if not is_of_one_file(error):
                raise
            raise SampleError(f"the file cannot be read: {error.strerror}", sample=unit, path=path) from error
        except FormatError as error:
            raise SampleError(f"the file shrank while it was read: {error.rule}", sample=unit, path=path) from error

    def check_unit(self, unit: int, data: Buffer) -> None:
        """A file carries no checksum of its own."""

    def check_sample(self, sample: int, data: Buffer) -> None:
        """A file carries no checksum of its own."""

    def origin(self, sample: int) -> Origin:
        return Origin(None, "", os.fspath(self._paths[sample]))

    def largest_pixels(self) -> int:
        """Of the PROBED_FILES largest files, whose headers are read for this; USUAL_PIXELS at least."""
        largest = np.argsort(self.places.size)[-PROBED_FILES:]
        return max([USUAL_PIXELS, *(_claimed_pixels(os.fspath(self._paths[n])) for n in largest.tolist())])

    def identity(self) -> Hashable:
        """Of one reader alone: asking the system for each file anew would take long."""
        return self._reader

    def take_traffic(self) -> None:
        """A folder is on no network that this knows of."""

    def clone(self) -> FolderPictures:
        return self

    def close(self) -> None:
        """Files are closed after each read."""


def _claimed_pixels(path: str) -> int:
    try:
        with Image.open(path) as picture:
            return picture.width * picture.height
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return 0  # it takes no memory either


class LoadedSet(NamedTuple):
    """A reader as the loader sees it: encoded pictures that are to be read, or pixels that are in memory.

    labels: int32 [n]. blocks: int64 [n], the block of each sample (its own number where there are none).
    largest_picture: pixels of the largest one, as far as the set says so; for a folder, a usual photograph's.
    most_pixels: a picture with more is none of this set; None where the set makes no such promise. is_training: None
    where only a folder's name says that it is not (val, test).
    """

    labels: NDArray[np.int32]
    blocks: NDArray[np.int64]
    has_blocks: bool
    is_training: bool | None
    largest_picture: int
    most_pixels: int | None
    pictures: PictureSet | None
    pixels: NDArray[np.uint8] | None

    @property
    def is_remote(self) -> bool:
        """True where bytes come over a network."""
        return self.pictures is not None and self.pictures.is_remote

    @property
    def is_cached(self) -> bool:
        """True where they come through a cache on this machine, by whole blocks."""
        return self.pictures is not None and self.pictures.is_cached

    @property
    def places(self) -> Places | None:
        """Where the encoded pictures lie."""
        return None if self.pictures is None else self.pictures.places


def open_set(ds: object) -> tuple[ImageReader, LoadedSet]:
    """The reader (opened, where `ds` is a path) and its set. Raises UsageError for what holds no pictures."""
    if isinstance(ds, str | os.PathLike | list | tuple):
        ds = open_images(ds)
    if isinstance(ds, ArrayReader):
        training = bool(ds.header.is_training)
        return ds, LoadedSet(ds.labels, np.arange(len(ds)), False, training, 0, None, None, ds.pixels)
    if isinstance(ds, DtsReader):
        blocks = DtsPictures(ds)
        training = bool(ds.header.is_training)
        largest = blocks.largest_pixels()
        is_true = ds.level > 0 or ds.block_crcs is not None  # the genuine exporter's level 0 has a constant there
        most = largest if is_true else None
        return ds, LoadedSet(ds.labels, blocks.places.unit, True, training, largest, most, blocks, None)
    if isinstance(ds, FolderReader):
        files = FolderPictures(ds)
        says = None if is_held_out_split(Path(ds.path).name) else True
        return ds, LoadedSet(ds.labels, files.places.unit, False, says, USUAL_PIXELS, None, files, None)
    raise UsageError(f"an ImageLoader reads what trainload.open gives for pictures, not {type(ds).__name__}")
