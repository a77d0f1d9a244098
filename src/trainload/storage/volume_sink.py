"""Where the volumes of a set are written: what a packer asks of such a place, and its local form, files.

A volume is a header region and then blocks of one size. Blocks come first, each to its place; the header region, which
depends on all volumes, comes last; only then does the volume appear under its name, whole. Knows no format.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from isal import isal_zlib

from trainload.errors import FormatError, UsageError
from trainload.storage.atomic import AtomicFile, tmp_name
from trainload.storage.claim import being_written, discard, is_being_written
from trainload.storage.file import FileSource
from trainload.storage.folders import make_folders
from trainload.storage.location import Url, is_url
from trainload.storage.target import check_target, refuse_odd_file

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Buffer


class VolumeShape(NamedTuple):
    """Bytes of the header region and of each block, which follow it without a gap."""

    header_bytes: int
    block_bytes: int

    def end(self, blocks: int) -> int:
        """Bytes of a volume of that many blocks; where the next block begins."""
        return self.header_bytes + blocks * self.block_bytes


class VolumeSink(Protocol):
    """One volume while it is written. Leaving its `with` block without `commit` keeps what is there for a later one.

    A second attempt writes the same bytes, so it may go on with what the first one left.
    """

    @property
    def state(self) -> Mapping[str, Any]:
        """What `VolumeSet.open_volume` needs to go on in another process or on another machine; JSON values."""

    def count_good(self, crcs: Sequence[int]) -> int:
        """How many of the first blocks are there with these CRC-32s."""

    def write_block(self, index: int, block: Buffer) -> None:
        """Write a whole block at its place. What `block` refers to may change once this returns."""

    def sync(self) -> None:
        """Return once all that was written outlives this process and its machine. A failure is final."""

    def write_header(self, region: Buffer, blocks: int) -> None:
        """Write the header region, and end the volume after that many blocks. Raises UsageError where they are gone."""

    def commit(self) -> None:
        """Sync, and let the volume appear under its name, in the place of what had it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class VolumeSet(Protocol):
    """The place of a set: its volumes, numbered from 0, and the report beside them."""

    @property
    def set_name(self) -> str:
        """The path or URL that stands for all of it."""

    @property
    def names(self) -> Sequence[str]:
        """The path or URL of each volume."""

    @property
    def report_name(self) -> str: ...

    @property
    def most_blocks(self) -> int | None:
        """Of a volume; None where the place sets no limit."""

    def journal_path(self, volume: int | None) -> Path:
        """The local file that says how far a volume is, or (None) how far the set is."""

    def check(self, *, overwrite: bool, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
        """Raise UsageError unless the set may take its names: before any work. inputs: what is read."""

    def prepare(self) -> None:
        """Make what the volumes lie in; called after every check, before the first volume."""

    def check_volume(self, volume: int, *, overwrite: bool) -> None:
        """Raise UsageError where the volume has its name already, unless it is to be replaced."""

    def open_volume(
        self,
        volume: int,
        shape: VolumeShape,
        *,
        left: Sequence[int] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> VolumeSink:
        """left: the CRC-32 of each block of an earlier attempt to go on with; None begins anew. state: of its sink.

        Raises UsageError where another process writes the volume.
        """

    def is_finished(self, volume: int, region: bytes, size: int) -> bool:
        """Whether the volume has its name, this header region and that many bytes: an earlier `commit` was good."""

    def discard(self, volume: int) -> None:
        """Forget what is unfinished of a volume, its result and its journal, unless somebody writes it."""

    def save_result(self, volume: int, data: bytes) -> None:
        """Keep, whole or not at all, what a volume turned out to be, for whoever finishes the set."""

    def load_result(self, volume: int) -> bytes | None:
        """What `save_result` kept; None where nothing is."""

    def for_workers(self) -> VolumeSet:
        """The same place for processes that work in other folders; it pickles."""

    def write_report(self, parts: Iterable[bytes]) -> None:
        """Write what was special about the set's pictures, once its bytes are known."""

    def complete(self, set_uuid: str, crcs: Sequence[int]) -> None:
        """Called last, after the commit of all volumes: results and the volumes' journals are not needed any more.

        set_uuid: "" where they carry none. crcs: the CRC-32 of each, as in its header.
        """


class LocalVolume:
    """A volume as a file: `<path>.tmp` until `commit`. The sink of `LocalVolumes`."""

    def __init__(self, path: Path, shape: VolumeShape, left: Sequence[int] | None) -> None:
        if left and not tmp_name(path).exists() and path.exists() and _good_blocks(path, shape, left) == len(left):
            path.replace(tmp_name(path))  # a run that was killed between the renames of several volumes
        self._shape = shape
        self._file = AtomicFile(path, resume=left is not None, keep=True)

    @property
    def state(self) -> Mapping[str, Any]:
        return {}

    def count_good(self, crcs: Sequence[int]) -> int:
        return _good_blocks(self._file.tmp_path, self._shape, crcs)

    def write_block(self, index: int, block: Buffer) -> None:
        self._file.write_at(self._shape.end(index), block)

    def sync(self) -> None:
        self._file.sync()

    def write_header(self, region: Buffer, blocks: int) -> None:
        if self._file.tmp_path.stat().st_size < self._shape.end(blocks):
            raise UsageError(f"blocks of this unfinished volume are gone: pack it again: {self._file.tmp_path}")
        self._file.truncate(self._shape.end(blocks))
        self._file.write_at(0, region)

    def commit(self) -> None:
        self._file.commit()

    def __enter__(self) -> LocalVolume:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, trace)


class LocalVolumes:
    """A set as files: `path` itself, or `<stem>-<k>-of-<n><suffix>` beside it, k from 0, padded to equal length."""

    def __init__(self, path: str | os.PathLike[str], volumes: int) -> None:
        self.path = Path(path)
        self._paths = volume_paths(self.path, volumes)
        self._report_path = Path(f"{self.path}.report.json")

    @property
    def set_name(self) -> str:
        return str(self.path)

    @property
    def names(self) -> Sequence[str]:
        return [str(path) for path in self._paths]

    @property
    def report_name(self) -> str:
        return str(self._report_path)

    @property
    def most_blocks(self) -> None:
        return None

    def journal_path(self, volume: int | None) -> Path:
        path = self.path if volume is None else self._paths[volume]
        return path.with_name(f"{path.name}.journal")

    def check(self, *, overwrite: bool, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
        inputs = list(inputs)
        for path in self._paths:
            check_target(path, overwrite=overwrite, inputs=inputs)
            refuse_odd_file(tmp_name(path))
        refuse_odd_file(self._report_path)

    def prepare(self) -> None:
        make_folders(self.path.parent)

    def check_volume(self, volume: int, *, overwrite: bool) -> None:
        if is_being_written(tmp_name(self._paths[volume])):
            raise being_written(self._paths[volume])
        check_target(self._paths[volume], overwrite=overwrite)

    def open_volume(
        self,
        volume: int,
        shape: VolumeShape,
        *,
        left: Sequence[int] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> LocalVolume:
        return LocalVolume(self._paths[volume], shape, left)

    def is_finished(self, volume: int, region: bytes, size: int) -> bool:
        if tmp_name(self._paths[volume]).exists():
            return False
        try:
            with FileSource(self._paths[volume]) as source:
                return source.size == size and source.read_at(0, len(region)) == region
        except OSError:
            return False

    def discard(self, volume: int) -> None:
        for path in (tmp_name(self._paths[volume]), self._result_path(volume), self.journal_path(volume)):
            discard(path)

    def for_workers(self) -> LocalVolumes:
        return LocalVolumes(self.path.absolute(), len(self._paths))

    def save_result(self, volume: int, data: bytes) -> None:
        _write(self._result_path(volume), [data])

    def load_result(self, volume: int) -> bytes | None:
        try:
            with FileSource(self._result_path(volume)) as source:
                return source.read_at(0, source.size)
        except FileNotFoundError:
            return None

    def _result_path(self, volume: int) -> Path:
        return Path(f"{self._paths[volume]}.result")

    def write_report(self, parts: Iterable[bytes]) -> None:
        _write(self._report_path, parts)

    def complete(self, set_uuid: str, crcs: Sequence[int]) -> None:
        for volume in range(len(self._paths)):
            self._result_path(volume).unlink(missing_ok=True)
            if len(self._paths) > 1:  # else it is the set's, which its packer holds
                discard(self.journal_path(volume))


def volumes_at(path: str | os.PathLike[str], volumes: int) -> VolumeSet:
    """The place of a set of that many volumes, called `path`: files, or for a URL objects of a bucket."""
    if isinstance(path, str) and is_url(path):
        from trainload.storage.bucket_volumes import BucketVolumes

        return BucketVolumes(Url(path), volumes)
    return LocalVolumes(path, volumes)


def volume_paths(path: Path, volumes: int) -> list[Path]:
    """The files of a set: `path` itself, or `<stem>-<k>-of-<n><suffix>` with k from 0, padded to equal length."""
    if volumes == 1:
        return [path]
    digits = len(str(volumes))
    return [path.with_name(f"{path.stem}-{k:0{digits}}-of-{volumes}{path.suffix}") for k in range(volumes)]


def _good_blocks(path: Path, shape: VolumeShape, crcs: Sequence[int]) -> int:
    block = bytearray(shape.block_bytes)
    if not path.exists():
        return 0
    with FileSource(path) as source:
        for index, crc in enumerate(crcs):
            try:
                source.readinto_at(shape.end(index), block)
            except FormatError:  # the file ends before
                return index
            if isal_zlib.crc32(block) != crc:
                return index
    return len(crcs)


def _write(path: Path, parts: Iterable[bytes]) -> None:
    with AtomicFile(path) as file:
        at = 0
        for part in parts:
            file.write_at(at, part)
            at += len(part)
        file.commit()
